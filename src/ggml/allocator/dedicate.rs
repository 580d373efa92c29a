//! Tensors of an allocator's graphs that lie in buffers of the program.

use crate::ggml::dedicated::DedicateError;
use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::tensor::TensorRef;
use crate::placement::Bytes;

use super::Allocator;

impl Allocator {
    /// Gives `tensor`, or a node that copies it, memory in a buffer of the program. Returns the tensor that lies there;
    /// a copy lives until [`Allocator::reset_dedicated`].
    ///
    /// # Errors
    /// [`DedicateError`]; nothing is changed.
    pub fn dedicate<'g>(&mut self, tensor: TensorRef<'g>, buffer: BufferRef) -> Result<TensorRef<'g>, DedicateError> {
        let Self { planner, dedicated, chunks, .. } = self;
        dedicated.dedicate(planner.runtime, tensor, buffer, |other| chunks.contains(other.as_ptr()))
    }

    /// Bytes of `buffer` that dedicated tensors take, with the gaps between them.
    pub fn dedicated_size(&self, buffer: BufferRef) -> Bytes {
        self.dedicated.taken(buffer)
    }

    /// Forgets the tensors dedicated in `buffer`. Its tensors must not be used afterwards.
    pub fn reset_dedicated(&mut self, buffer: BufferRef) {
        self.dedicated.reset(buffer);
    }
}
