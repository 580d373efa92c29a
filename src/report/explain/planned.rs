//! The input of an explanation.

use crate::graph::snapshot::Snapshot;
use crate::graph::{BufferSpec, GraphPlan, Rules, TensorId};

/// A graph with its plan, and how much work its explanation may take.
#[derive(Clone, Copy, Debug)]
pub struct PlannedGraph<'a> {
    /// The graph, with the names of its tensors and buffers.
    pub snapshot: &'a Snapshot,
    /// How each buffer is planned.
    pub buffers: &'a [BufferSpec],
    /// By buffer: the sharing rules that are valid there, whether they are on or off.
    pub allowed: &'a [Rules],
    /// By tensor: the first tensor whose memory overlaps its own before the graph is planned; itself if there is none.
    pub same_memory: &'a [TensorId],
    /// The plan of the graph.
    pub plan: &'a GraphPlan,
    /// The work limit for trying changes: the number of tensors and buffers of changed graphs that may be planned.
    pub trials: u64,
}

/// Enough for every change in graphs of some thousand tensors, and for a few in graphs of a hundred thousand: some tenths of a
/// second.
pub const DEFAULT_TRIALS: u64 = 500_000;
