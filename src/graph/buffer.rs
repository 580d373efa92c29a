//! Buffers to plan for: their limits and rules, the buffer requested for each tensor, addresses and bytes in them.

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

/// A range of bytes in one address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// A number for the address space: a chunk of a buffer, or memory that a tensor represents.
    pub space: u32,
    /// The first byte, from the start of the space.
    pub start: Offset,
    /// The byte after the last.
    pub end: Offset,
}

impl Region {
    /// Returns the number of bytes.
    pub fn size(self) -> Bytes {
        self.end.saturating_sub(self.start)
    }

    /// Returns `true` if both have a byte in common.
    pub fn shares_bytes(self, other: Self) -> bool {
        self.common(other).size() > 0
    }

    /// Returns `true` if each starts before the other ends. Unlike in [`Region::shares_bytes`], an empty region
    /// overlaps the one that it lies inside of.
    pub fn overlaps(self, other: Self) -> bool {
        self.space == other.space && self.start < other.end && other.start < self.end
    }

    /// Returns the bytes that are in both; none if the spaces differ.
    #[must_use]
    pub fn common(self, other: Self) -> Self {
        let start = self.start.max(other.start);
        let end = if self.space == other.space { self.end.min(other.end) } else { start };
        Self { space: self.space, start, end: end.max(start) }
    }
}
