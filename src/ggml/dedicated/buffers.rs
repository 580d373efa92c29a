//! The buffers in which an allocator's tensors are dedicated.

use crate::placement::{Bytes, padded};

use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::live::tensor_mut::TensorMut;

use super::check::{DedicateError, Way, way_into};
use super::copy::CopyNode;

/// Where tensors were dedicated: the bytes taken of each buffer, and the nodes that copy into it.
#[derive(Debug, Default)]
pub struct DedicatedBuffers {
    buffers: Vec<DedicatedBuffer>,
}

#[derive(Debug)]
struct DedicatedBuffer {
    buffer: BufferRef,
    /// Bytes from the start of the buffer to the end of the last tensor.
    taken: Bytes,
    copies: Vec<CopyNode>,
}

impl DedicatedBuffers {
    /// Gives `tensor`, or a copy of it, the next bytes of `buffer`. Returns the tensor that lies there. Bytes are handed
    /// out in the order of calls, each at a multiple of the alignment. `is_compute_buffer` returns whether a buffer is
    /// one of the allocator's own.
    ///
    /// # Errors
    /// [`DedicateError`]; nothing is changed.
    pub fn dedicate<'g>(
        &mut self,
        runtime: &'static Runtime,
        tensor: TensorRef<'g>,
        buffer: BufferRef,
        is_compute_buffer: impl Fn(BufferRef) -> bool,
    ) -> Result<TensorRef<'g>, DedicateError> {
        let is_dedicated = |there: BufferRef| self.buffers.iter().any(|known| known.buffer == there);
        let way = way_into(runtime, tensor, buffer, is_compute_buffer, is_dedicated)?;
        let (owner, result) = match way {
            Way::Produced => (None, tensor),
            Way::Copied => {
                let (owner, copy) = CopyNode::new(runtime, tensor).ok_or(DedicateError::NoContext)?;
                check_copy(runtime, copy, buffer)?;
                (Some(owner), copy)
            }
        };
        let end = place_next(runtime, result, buffer, self.taken(buffer))?;
        // SAFETY: a live tensor of this thread.
        unsafe { (runtime.functions.ggml_set_output)(result.as_ptr()) };
        let entry = self.entry(buffer);
        entry.taken = end;
        entry.copies.extend(owner);
        Ok(result)
    }

    /// Returns the bytes of `buffer` that were handed out, with the gaps between them.
    pub fn taken(&self, buffer: BufferRef) -> Bytes {
        self.buffers.iter().find(|known| known.buffer == buffer).map_or(0, |known| known.taken)
    }

    /// Forgets the tensors dedicated in `buffer`, and frees the nodes that copy into it.
    pub fn reset(&mut self, buffer: BufferRef) {
        self.buffers.retain(|known| known.buffer != buffer);
    }

    fn entry(&mut self, buffer: BufferRef) -> &mut DedicatedBuffer {
        let known = self.buffers.iter().position(|known| known.buffer == buffer);
        let at = known.unwrap_or_else(|| {
            self.buffers.push(DedicatedBuffer { buffer, taken: 0, copies: Vec::new() });
            self.buffers.len() - 1
        });
        &mut self.buffers[at]
    }
}

fn check_copy(runtime: &'static Runtime, copy: TensorRef<'_>, buffer: BufferRef) -> Result<(), DedicateError> {
    if runtime.supports(buffer, copy) {
        return Ok(());
    }
    let buffer = runtime.type_of(buffer).map_or_else(String::new, |buffer_type| buffer_type.name());
    Err(DedicateError::NotSupported { buffer })
}

/// Places `tensor` behind the first `taken` bytes of `buffer`, and returns the bytes taken then.
fn place_next(
    runtime: &'static Runtime,
    tensor: TensorRef<'_>,
    buffer: BufferRef,
    taken: Bytes,
) -> Result<Bytes, DedicateError> {
    let (base, size) = runtime.extent(buffer);
    let alignment = runtime.type_of(buffer).map_or(1, |buffer_type| buffer_type.alignment());
    let base = base.addr() as Bytes;
    let start = padded(base + taken, alignment) - base;
    let wanted = runtime.alloc_size_in(buffer, tensor);
    let free = size.saturating_sub(start);
    if wanted > free {
        return Err(DedicateError::TooSmall { wanted, free, taken, size });
    }
    runtime.place_in(buffer, tensor, start).map_err(|_| {
        // SAFETY: no reference into the tensor is held here, nor by callers.
        unsafe { TensorMut::new(tensor) }.clear_memory();
        DedicateError::InitFailed
    })?;
    Ok(start + wanted)
}
