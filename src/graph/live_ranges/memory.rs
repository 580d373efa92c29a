//! Memory for the next graph.

use crate::graph::{BufferIndex, TensorId};
use crate::placement::Block;

use super::allocation::{Allocation, InactiveNode};
use super::last_uses::Point;

/// Lists that are filled while live ranges are found. Whatever they held before, only their memory is used.
#[derive(Debug, Default)]
pub struct LiveRangeMemory {
    /// By tensor, its last use.
    pub points: Vec<Point>,
    /// The leafs to allocate.
    pub leafs: Vec<(TensorId, BufferIndex)>,
    /// By tensor.
    pub allocations: Vec<Option<Allocation>>,
    /// The inactive nodes.
    pub inactive: Vec<TensorId>,
    /// The inactive nodes that own memory.
    pub inactive_owners: Vec<InactiveNode>,
    /// The blocks of one buffer.
    pub blocks: Vec<Block>,
}
