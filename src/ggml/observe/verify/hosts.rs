//! What ggml says of a buffer that is not ours.

use crate::placement::Bytes;

use crate::ggml::USAGE_NOT_KNOWN;
use crate::ggml::bindings::ggml_backend_buffer;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;

impl Runtime {
    /// The first address of a live buffer, and how many bytes it has.
    pub(super) fn extent(&self, buffer: *mut ggml_backend_buffer) -> (usize, Bytes) {
        // SAFETY: a live buffer.
        let base = unsafe { (self.functions.ggml_backend_buffer_get_base)(buffer) };
        // SAFETY: a live buffer.
        let size = unsafe { (self.functions.ggml_backend_buffer_get_size)(buffer) };
        (base.addr(), size as Bytes)
    }

    /// What a live buffer is used for, as ggml numbers it.
    pub(super) fn usage(&self, buffer: *mut ggml_backend_buffer) -> u32 {
        // SAFETY: a live buffer.
        self.functions.ggml_backend_buffer_get_usage.map_or(USAGE_NOT_KNOWN, |usage| unsafe { usage(buffer) })
    }

    /// Can the processor read and write the bytes of a live buffer?
    pub(super) fn is_host(&self, buffer: *mut ggml_backend_buffer) -> bool {
        // SAFETY: a live buffer.
        self.functions.ggml_backend_buffer_is_host.is_some_and(|is_host| unsafe { is_host(buffer) })
    }

    /// Bytes that a tensor takes in the live buffer that it lies in.
    pub(super) fn alloc_size_in(&self, buffer: *mut ggml_backend_buffer, tensor: TensorRef<'_>) -> Bytes {
        // SAFETY: a live buffer and a live tensor.
        unsafe { (self.functions.ggml_backend_buffer_get_alloc_size)(buffer, tensor.as_ptr()) as Bytes }
    }
}
