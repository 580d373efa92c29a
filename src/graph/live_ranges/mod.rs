//! Live ranges: from which step to which each tensor needs memory, and which tensors share a block.
//!
//! A first pass finds the last use of every tensor, then a walk over the nodes adds a block for each tensor that is not
//! computed in place. The walk is ggml's: leafs, inputs, then node by node; memory is free after its last use. It
//! differs where ggml's own walk is wrong: views that are in no list of the graph count as uses of their root, a root
//! with an OUTPUT view is kept, and a tensor that is used before its def is kept until its def. Reuse beyond that
//! follows [`Rules`](super::Rules). Memory of retained tensors is free only after the retention. Uses the graph, `rules`
//! and `buffer`.
//!
//! - `allocation`: the result: blocks, and the block of each tensor
//! - `inactive`: the nodes that no backend computes
//! - `last_uses`: the result of the first pass
//! - `memory`: memory for the next graph
//! - `in_order`, `any_order`: the first pass, quick for nearly all graphs, and general
//! - `retained`: extends the last uses of tensors that the program reads later
//! - `blocks`: the blocks so far
//! - `in_place`: the search for a source to compute a node in place of
//! - `walk`: the walk
//! - `concat`: operands of CONCAT that are computed inside the result

mod allocation;
mod concat;
mod inactive;
mod last_uses;
mod memory;
mod blocks;
mod any_order;
mod in_order;
mod in_place;
mod retained;
mod walk;

pub use allocation::{Allocation, InactiveNode, LiveRanges};
pub use concat::compute_inside_concats;
pub use memory::LiveRangeMemory;
pub use walk::{live_ranges, live_ranges_in};
