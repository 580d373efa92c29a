//! The placements of the same size that cost devices least.

use std::borrow::Cow;
use std::fmt;

use crate::graph::kernels::{Desc, Kernels, costs_at};
use crate::graph::{BufferIndex, Device, Graph, GraphPlan, Requests, TensorId};
use crate::placement::{Bytes, placements_within};

/// How many other placements are compared at most.
const COMPARED: usize = 8;

/// The devices of the buffers, and what costs on them depend on besides the graph and its addresses.
#[derive(Clone, Copy)]
pub struct Devices<'a> {
    /// Returns the device that computes the nodes of a buffer.
    pub of: &'a dyn Fn(BufferIndex) -> Device,
    /// Returns the graph with the layouts of all tensors: planning reads none of constants.
    pub graph: &'a dyn Fn() -> Cow<'a, Graph>,
    /// Returns ggml's description of a tensor.
    pub desc: Desc<'a>,
    /// Returns the bytes from the first to the last element of a tensor.
    pub nbytes: &'a dyn Fn(TensorId) -> Bytes,
}

impl fmt::Debug for Devices<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Devices").finish_non_exhaustive()
    }
}

/// Replaces the placement of each buffer by another one with chunks of the same sizes that costs its device less, if some
/// strategy finds one; see [`costs_at`]: fewer sequences of nodes that are not fused, then fewer barriers.
#[cold]
pub fn prefer_cheaper(plan: &mut GraphPlan, requests: Requests<'_>, devices: &Devices<'_>) {
    let graph = (devices.graph)();
    for buffer in (0..).take(plan.buffers.len()) {
        let on = (buffer, (devices.of)(buffer), plan.problems[buffer as usize].alignment());
        if let Some(kernels) = Kernels::find(&graph, requests, on, devices.desc) {
            prefer_cheaper_in(plan, &graph, buffer, &kernels, devices.nbytes);
        }
    }
}

fn prefer_cheaper_in(
    plan: &mut GraphPlan,
    graph: &Graph,
    buffer: BufferIndex,
    kernels: &Kernels,
    nbytes: &dyn Fn(TensorId) -> Bytes,
) {
    let at = buffer as usize;
    let costs =
        |plan: &GraphPlan| costs_at(kernels, graph, nbytes, &|root| plan.placed(root).map(|(address, _)| address));
    let mut best = costs(plan);
    let chunks = plan.buffers[at].placement.chunks.clone();
    let others: Vec<_> = placements_within(&plan.problems[at], &chunks).take(COMPARED).collect();
    for (other, strategy) in others {
        let kept = std::mem::replace(&mut plan.buffers[at].placement.locations, other.locations);
        let found = costs(plan);
        if found < best {
            best = found;
            plan.buffers[at].strategy = strategy;
        } else {
            plan.buffers[at].placement.locations = kept;
        }
    }
}
