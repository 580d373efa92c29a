//! A buffer type with a limit.

use lastuse::ggml::ggml_backend_buffer_type;
use lastuse::placement::Bytes;

use super::loaded::{DummyBuft, LimitedTypes};

/// A buffer type whose buffers should not exceed a size. They have no memory: nothing may be computed in them.
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
        // SAFETY: the type is alive.
        unsafe { (self.functions.get)(self.raw) }
    }

    /// How many of its buffers are alive, and their bytes together.
    pub fn held(&self) -> (usize, Bytes) {
        // SAFETY: the type is alive.
        let buffers = unsafe { (self.functions.buffers)(self.raw) };
        // SAFETY: as above.
        let bytes = unsafe { (self.functions.bytes)(self.raw) };
        (buffers, bytes as Bytes)
    }
}

impl Drop for LimitedType {
    fn drop(&mut self) {
        // SAFETY: the type is ours, and whoever made buffers of it is gone.
        unsafe { (self.functions.free)(self.raw) };
    }
}
