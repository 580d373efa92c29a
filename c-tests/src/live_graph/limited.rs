//! A buffer type with a limit.

use lastuse::ffi::ggml_backend_buffer_type;
use lastuse::placement::Bytes;

use super::loaded::{DummyBuft, LimitedTypes};

/// A buffer type with a maximum size of its buffers. They have no memory: nothing may be computed in them.
#[derive(Debug)]
pub struct LimitedType {
    functions: LimitedTypes,
    raw: *mut DummyBuft,
}

impl LimitedType {
    pub fn new(functions: LimitedTypes, alignment: Bytes, max_size: Bytes) -> Self {
        let size = |bytes: Bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: takes any numbers.
        let raw = unsafe { (functions.new)(size(alignment), size(max_size)) };
        Self { functions, raw }
    }

    pub fn as_ggml(&self) -> *mut ggml_backend_buffer_type {
        // SAFETY: the type is valid.
        unsafe { (self.functions.get)(self.raw) }
    }

    /// Returns the number of its live buffers and the sum of their bytes.
    pub fn held(&self) -> (usize, Bytes) {
        // SAFETY: the type is valid.
        let buffers = unsafe { (self.functions.buffers)(self.raw) };
        // SAFETY: as above.
        let bytes = unsafe { (self.functions.bytes)(self.raw) };
        (buffers, bytes as Bytes)
    }
}

impl Drop for LimitedType {
    fn drop(&mut self) {
        // SAFETY: the type is ours, and the allocator of its buffers was dropped before.
        unsafe { (self.functions.free)(self.raw) };
    }
}
