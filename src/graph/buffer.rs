//! Buffers to plan for: their limits and rules, the buffer requested for each tensor, and addresses in them.

use crate::placement::{Bytes, ChunkId, Effort, Offset};

use super::{Rules, TensorId};

/// Dense index of a buffer to plan: one buffer type, however many of the caller's buffer ids name it.
pub type BufferIndex = u32;

/// A buffer to plan: the limits of its buffer type, and how memory in it may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSpec {
    /// Offsets and sizes are multiples of this power of two.
    pub alignment: Bytes,
    /// The largest chunk in bytes, where there is a limit.
    pub max_chunk: Option<Bytes>,
    /// Which reuse of memory is allowed in it.
    pub rules: Rules,
    /// Work limit of the search for smaller offsets, each time that blocks are placed.
    pub effort: Effort,
}

/// The buffers that the caller requests for leafs and nodes. A source in neither list gets the buffer of its first
/// user.
#[derive(Clone, Copy, Debug)]
pub struct Requests<'a> {
    /// By position in [`Graph::leafs`](super::Graph::leafs).
    pub leafs: &'a [BufferIndex],
    /// By position in [`Graph::nodes`](super::Graph::nodes).
    pub nodes: &'a [BufferIndex],
}

/// The size of a tensor in a buffer, before padding.
pub trait Sizes {
    /// Returns the bytes that the buffer type of `buffer` requires for `tensor`.
    fn alloc_size(&mut self, tensor: TensorId, buffer: BufferIndex) -> Bytes;
}

impl<F: FnMut(TensorId, BufferIndex) -> Bytes> Sizes for F {
    fn alloc_size(&mut self, tensor: TensorId, buffer: BufferIndex) -> Bytes {
        self(tensor, buffer)
    }
}

/// The planned address of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The buffer.
    pub buffer: BufferIndex,
    /// The chunk of the buffer.
    pub chunk: ChunkId,
    /// Bytes from the start of the chunk.
    pub offset: Offset,
}
