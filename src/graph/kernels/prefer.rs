//! The placement of the same size that costs a device least.

use crate::graph::{BufferIndex, Graph, GraphPlan, TensorId};
use crate::placement::{Bytes, placements_within};

use super::replay::costs_at;
use super::sequences::Kernels;

/// How many other placements are compared at most.
const COMPARED: usize = 8;

/// Replaces the placement of `buffer` by another one with chunks of the same sizes that costs its device less, if some
/// strategy finds one; see [`costs_at`]: fewer sequences of nodes that are not fused, then fewer barriers.
pub fn prefer_cheaper(
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
