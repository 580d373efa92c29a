//! Live ranges: from which step to which each tensor needs memory, and which tensors share a block.
//!
//! A first pass finds the last use of every tensor, then a walk over the nodes adds a block for each tensor that is not
//! computed in place. The walk is ggml's: leafs, inputs, then node by node; memory is free after its last use. It
//! differs where ggml's own walk is wrong: views that are in no list of the graph count as uses of their root, a root
//! with an OUTPUT view is kept, and a tensor that is used before its def is kept until its def. Reuse beyond that
//! follows [`Rules`](super::Rules). Memory of retained tensors is free only after the retention. Uses the graph, `rules`
//! and `buffer`.
//!
//! - `inactive`: the nodes that no backend computes
//! - `last_uses`: the first pass, quick for nearly all graphs
//! - `any_order`: the first pass over any graph
//! - `blocks`: the blocks so far
//! - `in_place`: the search for a source to compute a node in place of
//! - `walk`: the walk
//! - `concat`: operands of CONCAT that are computed inside the result

mod inactive;
mod last_uses;
mod any_order;
mod blocks;
mod in_place;
mod walk;
mod concat;

use crate::graph::{BufferIndex, BufferSpec, TensorId};
use crate::placement::{BlockId, BlockList, Bytes, Problem, Step};

pub use concat::compute_inside_concats;
pub use last_uses::Workspace;
pub use walk::live_ranges;

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
