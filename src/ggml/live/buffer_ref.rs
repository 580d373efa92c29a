//! References to live buffers, and what ggml's public accessors report about them.

use std::ptr::NonNull;

use crate::ggml::USAGE_NOT_KNOWN;
use crate::ggml::bindings::ggml_backend_buffer;
use crate::placement::Bytes;

use super::runtime::Runtime;
use super::tensor::TensorRef;

/// A live buffer. Equal references are the same buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferRef(NonNull<ggml_backend_buffer>);

// SAFETY: a reference is only an address. ggml's functions are called with it by the thread that uses the graph.
unsafe impl Send for BufferRef {}
// SAFETY: as above.
unsafe impl Sync for BufferRef {}

impl BufferRef {
    /// Returns `None` for null.
    ///
    /// # Safety
    /// `buffer` is null, or a buffer that outlives the value.
    pub unsafe fn new(buffer: *mut ggml_backend_buffer) -> Option<Self> {
        NonNull::new(buffer).map(Self)
    }

    /// # Safety
    /// `buffer` outlives the value.
    pub unsafe fn from_non_null(buffer: NonNull<ggml_backend_buffer>) -> Self {
        Self(buffer)
    }

    /// Returns the buffer as C's pointer.
    pub fn as_ptr(self) -> *mut ggml_backend_buffer {
        self.0.as_ptr()
    }
}

impl TensorRef<'_> {
    /// Returns the buffer that the tensor lies in, which lives as long as the tensor is used.
    pub fn buffer_ref(self) -> Option<BufferRef> {
        // SAFETY: the buffer of a live tensor is live.
        unsafe { BufferRef::new(self.buffer()) }
    }
}

impl Runtime {
    /// Returns the first address of a buffer, and its size in bytes.
    pub fn extent(&self, buffer: BufferRef) -> (*mut u8, Bytes) {
        // SAFETY: a live buffer.
        let base = unsafe { (self.functions.ggml_backend_buffer_get_base)(buffer.as_ptr()) };
        // SAFETY: a live buffer.
        let size = unsafe { (self.functions.ggml_backend_buffer_get_size)(buffer.as_ptr()) };
        (base.cast(), size as Bytes)
    }

    /// Returns the size of a buffer in bytes.
    pub fn size(&self, buffer: BufferRef) -> Bytes {
        // SAFETY: a live buffer.
        unsafe { (self.functions.ggml_backend_buffer_get_size)(buffer.as_ptr()) as Bytes }
    }

    /// Returns ggml's number for the usage of a buffer.
    pub fn usage(&self, buffer: BufferRef) -> u32 {
        // SAFETY: a live buffer.
        self.functions.ggml_backend_buffer_get_usage.map_or(USAGE_NOT_KNOWN, |usage| unsafe { usage(buffer.as_ptr()) })
    }

    /// Returns `true` if the processor can read and write the bytes of a buffer.
    pub fn is_host(&self, buffer: BufferRef) -> bool {
        // SAFETY: a live buffer.
        self.functions.ggml_backend_buffer_is_host.is_some_and(|is_host| unsafe { is_host(buffer.as_ptr()) })
    }

    /// Returns the bytes that `tensor` takes in a buffer, before padding.
    pub fn alloc_size_in(&self, buffer: BufferRef, tensor: TensorRef<'_>) -> Bytes {
        // SAFETY: a live buffer and a live tensor.
        unsafe { (self.functions.ggml_backend_buffer_get_alloc_size)(buffer.as_ptr(), tensor.as_ptr()) as Bytes }
    }
}
