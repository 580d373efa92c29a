//! Parts of small graphs by hand, and of random graphs against all cuts that there are.

mod cuts;
mod parts;
mod chosen;
mod profile;

use std::ops::Range;

use crate::graph::tests::sketch::{List, Sketch};
use crate::graph::{BufferIndex, Requests, TensorId};
use crate::placement::{Bytes, Step};

use super::{PartPlanner, StepwisePlan, choose_cuts, parts_of, plan_parts};

/// Calls `run` with a planner for the sketch.
fn with_planner<T>(sketch: &Sketch, run: impl FnOnce(&mut PartPlanner<'_>) -> T) -> T {
    let (leafs, nodes) = (sketch.requests(List::Leafs), sketch.requests(List::Nodes));
    let requests = Requests { leafs: &leafs, nodes: &nodes };
    let mut sizes = |id: TensorId, _: BufferIndex| sketch.drafts[id as usize].size;
    let graph = sketch.graph();
    run(&mut PartPlanner::new(&graph, &sketch.buffers, requests, &mut sizes))
}

/// Plans the sketch, cut after these nodes.
fn planned(sketch: &Sketch, cuts: &[Step]) -> StepwisePlan {
    let parts = parts_of(sketch.requests(List::Nodes).len(), cuts).expect("the cuts are in order");
    with_planner(sketch, |planner| plan_parts(planner, &parts)).expect("sizes are small")
}

/// Returns the cuts that are chosen for this many parts.
fn chosen(sketch: &Sketch, parts: usize) -> Vec<Step> {
    with_planner(sketch, |planner| choose_cuts(planner, parts)).expect("sizes are small")
}

/// Returns all ways to cut the nodes into this many parts.
fn all_cuts(nodes: Range<Step>, parts: usize) -> Vec<Vec<Step>> {
    if parts == 1 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for first in nodes.start..nodes.end.saturating_sub(1) {
        for mut rest in all_cuts(first + 1..nodes.end, parts - 1) {
            rest.insert(0, first);
            all.push(rest);
        }
    }
    all
}

/// Returns the crossing tensors with their parts.
fn crossing(plan: &StepwisePlan) -> Vec<(TensorId, usize, usize)> {
    plan.crossing.iter().map(|it| (it.tensor, it.first_part, it.last_part)).collect()
}

/// Returns the bytes of the compute buffer of each part.
fn compute(plan: &StepwisePlan) -> Vec<Bytes> {
    plan.parts.iter().map(super::PartPlan::compute).collect()
}
