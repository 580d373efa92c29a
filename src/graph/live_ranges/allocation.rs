//! The blocks of a graph, and which tensor is in which.

use crate::graph::{BufferIndex, BufferSpec, TensorId};
use crate::placement::{BlockId, BlockList, Bytes, Problem, Step};

/// The block of a tensor. Tensors computed in place share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The buffer that the block belongs to.
    pub buffer: BufferIndex,
    /// The block.
    pub block: BlockId,
    /// Bytes from the start of the block: more than 0 only for a tensor computed inside the result of a CONCAT.
    pub within: Bytes,
    /// Bytes that the buffer type requires for this tensor, before padding.
    pub alloc_size: Bytes,
    /// The in-place source, where the tensor is computed in place.
    pub in_place_of: Option<TensorId>,
}

/// An inactive node that owns memory: no backend computes it, so it has an address in its buffer, but no own bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InactiveNode {
    /// The node.
    pub tensor: TensorId,
    /// The buffer of its address.
    pub buffer: BufferIndex,
    /// Bytes that the buffer type requires for it, before padding.
    pub alloc_size: Bytes,
    /// The source that ggml's own allocator may compute it in place of; it then has the address of that source.
    pub in_place_of: Option<TensorId>,
}

/// The live ranges of a graph, as blocks of each buffer.
#[derive(Debug)]
pub struct LiveRanges {
    /// By buffer.
    pub blocks: Vec<BlockList>,
    /// By tensor; `None` for views, external tensors, unused tensors and inactive nodes.
    pub allocations: Vec<Option<Allocation>>,
    /// The inactive nodes, by id.
    pub inactive: Vec<TensorId>,
    /// The inactive nodes that own memory, by id.
    pub inactive_owners: Vec<InactiveNode>,
    /// The steps of CONCATs whose results own memory.
    pub concats: Vec<Step>,
    /// True if memory is reused where ggml's own allocator would not reuse it.
    pub beyond_ggml: bool,
}

impl LiveRanges {
    /// Takes the blocks as one placement problem per buffer. Nothing changes them any more.
    pub fn take_problems(&mut self, buffers: &[BufferSpec]) -> Vec<Problem> {
        let problem =
            |(list, buffer): (BlockList, &BufferSpec)| Problem::from_blocks(list, buffer.alignment, buffer.max_chunk);
        std::mem::take(&mut self.blocks).into_iter().zip(buffers).map(problem).collect()
    }
}
