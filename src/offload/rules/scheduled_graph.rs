//! The graph as the allocator receives it, and where everything is.

use std::ops::Range;

use crate::graph::{BufferIndex, Graph, TensorId};
use crate::placement::Step;

use super::backends::{BackendIndex, Backends};

/// Where a tensor of a scheduled graph comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A tensor of the graph that was scheduled.
    Tensor(TensorId),
    /// A copy of a tensor for the splits of a backend.
    Copy {
        /// The tensor.
        of: TensorId,
        /// The backend.
        backend: BackendIndex,
        /// Which of several copies for pipelines, from 0.
        number: u32,
    },
    /// A control dependency that keeps a tensor live.
    Marker {
        /// The tensor; if there are several, the first.
        of: TensorId,
    },
    /// The result of a node where it is computed, before it is copied to where it resides.
    Staged {
        /// The node.
        of: TensorId,
    },
}

/// A graph with the copies that run between backends: node list and leaf list as the allocator receives them.
#[derive(Clone, Debug)]
pub struct ScheduledGraph {
    /// The graph. Ids number the leafs first, then the nodes, then the tensors that are only referred to.
    pub graph: Graph,
    /// By tensor.
    pub origins: Vec<Origin>,
    /// By position in the node list, the backend whose buffer is requested.
    pub node_backends: Vec<BackendIndex>,
    /// By position in the leaf list. Leafs that have memory and that no operation uses get the host.
    pub leaf_backends: Vec<BackendIndex>,
}

impl ScheduledGraph {
    /// Returns the requested compute buffers of the leafs and of the nodes, see [`Backends::compute_buffers`].
    pub fn requested_buffers(&self, backends: &Backends) -> (Vec<BufferIndex>, Vec<BufferIndex>) {
        let buffers = backends.compute_buffers();
        let of = |list: &[BackendIndex]| list.iter().map(|&backend| buffers[backend as usize]).collect();
        (of(&self.leaf_backends), of(&self.node_backends))
    }
}

/// Consecutive nodes that run on one backend, after their inputs were copied to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The backend.
    pub backend: BackendIndex,
    /// Its steps in the scheduled graph: markers and copies of its inputs, then its nodes.
    pub steps: Range<Step>,
    /// The tensors that are copied to the backend before the split runs.
    pub inputs: Vec<TensorId>,
}

/// Where each tensor of a graph is, by one of the rules.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// By tensor, the backend that runs it; for tensors that are not computed, the backend that they belong to. `None`
    /// where no operation asks for one.
    pub executes: Vec<Option<BackendIndex>>,
    /// By tensor, the backend in whose memory it stays.
    pub resides: Vec<Option<BackendIndex>>,
    /// The splits, in the order of execution.
    pub splits: Vec<Split>,
    /// The graph that is allocated.
    pub scheduled: ScheduledGraph,
}

impl Schedule {
    /// Returns the number of tensors that are copied between backends.
    pub fn copied_inputs(&self) -> usize {
        self.splits.iter().map(|split| split.inputs.len()).sum()
    }
}
