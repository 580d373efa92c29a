//! Plans a graph: live ranges, placements, and other reuse where that may take fewer bytes.

use crate::graph::live_ranges::{LiveRangeMemory, compute_inside_concats, live_ranges_in};
use crate::graph::{BufferIndex, BufferSpec, Graph, InactiveNode, LiveRanges, Requests, Rules, Sizes, TensorId};
use crate::placement::{Bytes, Effort, PlacementMemory, Problem, Timeline, TooLarge, choose_in};

use super::ggml_alloc::plan_as_ggml;
use super::graph_plan::{GraphPlan, PlanError};
use super::intact_inputs::{intact_inputs, read_inputs};
use super::planned_sizes::PlannedSizes;

/// Lists that planning fills, which the next plan uses again: `malloc` takes a good part of the time for a small graph.
#[derive(Debug, Default)]
pub struct PlanMemory {
    live_ranges: LiveRangeMemory,
    placement: PlacementMemory,
}

impl PlanMemory {
    /// Takes the memory of a plan that is not needed any more.
    pub fn take_plan(&mut self, plan: GraphPlan) {
        let LiveRangeMemory { allocations, inactive, inactive_owners, .. } = &mut self.live_ranges;
        (*allocations, *inactive, *inactive_owners) = (plan.allocations, plan.inactive, plan.inactive_owners);
        self.take_problems(plan.problems);
        if let Some(buffer) = plan.buffers.into_iter().next() {
            self.placement.take_placement(buffer.placement);
        }
    }

    /// Takes the memory of placement problems that are not needed any more.
    pub fn take_problems(&mut self, problems: Vec<Problem>) {
        if let Some(problem) = problems.into_iter().next() {
            self.live_ranges.blocks = problem.into_blocks();
        }
    }
}

/// Plans the memory of `graph`. No buffer is larger than with ggml's own allocator, where that one is right and no tensor
/// is retained, nor larger with an effort above the default than with the default. Queries the size of each tensor once
/// per buffer.
///
/// # Errors
/// [`PlanError::TooLarge`] when sizes overflow.
pub fn plan(
    graph: &Graph,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut dyn Sizes,
) -> Result<GraphPlan, PlanError> {
    let mut sizes = |tensor: TensorId, buffer: BufferIndex| sizes.alloc_size(tensor, buffer);
    plan_in(&mut PlanMemory::default(), graph, buffers, requests, &mut sizes)
}

/// Plans as [`plan`] does, compiled for one kind of sizes: faster, and more code. `memory` is that of an earlier plan.
///
/// # Errors
/// [`PlanError::TooLarge`] when sizes overflow.
pub fn plan_in<S: Sizes>(
    memory: &mut PlanMemory,
    graph: &Graph,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut S,
) -> Result<GraphPlan, PlanError> {
    let by_ggml = plan_of_inputs(graph, buffers, requests, sizes);
    let kept = by_ggml.as_ref().map_or_else(Vec::new, |plan| inputs_to_keep(graph, buffers, plan));
    let Some(by_ggml) = by_ggml.filter(|_| !kept.is_empty()) else {
        return plan_keeping(memory, graph, buffers, requests, sizes, &[]);
    };
    let mut known = PlannedSizes::of(&by_ggml, sizes);
    let plan = plan_keeping(memory, graph, buffers, requests, &mut known, &kept)?;
    // At the offsets of ggml's own plan these inputs are intact, and no placement need be found that is as small.
    let is_allowed = graph.retention().is_empty() && buffers.iter().all(|buffer| buffer.rules.in_place);
    Ok(if is_allowed && is_smaller(&by_ggml, &plan) { by_ggml } else { plan })
}

/// Returns the plan of ggml's own allocator where it decides which inputs are kept: some buffer has the rule for it, and
/// the graph has inputs.
fn plan_of_inputs<S: Sizes>(
    graph: &Graph,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut S,
) -> Option<GraphPlan> {
    let is_wanted = buffers.iter().any(|buffer| buffer.rules.keep_inputs) && !read_inputs(graph).is_empty();
    let mut sizes = |tensor: TensorId, buffer: BufferIndex| sizes.alloc_size(tensor, buffer);
    if is_wanted { plan_as_ggml(graph, buffers, requests, &mut sizes).ok() } else { None }
}

/// Returns, each with its buffer, the inputs that [`plan`] keeps to the end: those that are intact in the plan of ggml's
/// own allocator, where the rules of their buffer want that.
fn inputs_to_keep(graph: &Graph, buffers: &[BufferSpec], by_ggml: &GraphPlan) -> Vec<(TensorId, BufferIndex)> {
    let mut kept = intact_inputs(graph, by_ggml);
    kept.retain(|&(_, buffer)| buffers[buffer as usize].rules.keep_inputs);
    kept
}

/// Plans as [`plan_in`] does, and keeps the inputs `kept` to the end, each with its buffer, whatever the rules say.
///
/// # Errors
/// [`PlanError::TooLarge`] when sizes overflow.
pub fn plan_keeping<S: Sizes>(
    memory: &mut PlanMemory,
    graph: &Graph,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut S,
    kept: &[(TensorId, BufferIndex)],
) -> Result<GraphPlan, PlanError> {
    if buffers.iter().all(|buffer| buffer.effort <= Effort::default()) {
        return plan_with_efforts(memory, graph, buffers, requests, sizes, kept);
    }
    let mut quick = buffers.to_vec();
    quick.iter_mut().for_each(|buffer| buffer.effort = buffer.effort.min(Effort::default()));
    let plan = plan_with_efforts(memory, graph, &quick, requests, sizes, kept)?;
    if plan.is_at_bound() {
        return Ok(plan);
    }
    let mut known = PlannedSizes::of(&plan, sizes);
    let other = plan_with_efforts(memory, graph, buffers, requests, &mut known, kept)?;
    // A longer search tries other sizes first, and other rules may win one buffer and lose another.
    Ok(if is_smaller(&plan, &other) { plan } else { other })
}

/// Plans with the effort of each buffer, without comparing it with the default.
fn plan_with_efforts<S: Sizes>(
    memory: &mut PlanMemory,
    graph: &Graph,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut S,
    kept: &[(TensorId, BufferIndex)],
) -> Result<GraphPlan, PlanError> {
    let mut found = live_ranges_in(&mut memory.live_ranges, graph, buffers, requests, sizes, kept);
    check_totals(&found)?;
    let timelines = compute_inside_concats(graph, buffers, &mut found);
    let beyond_ggml = found.beyond_ggml;
    let mut plan = place(&mut memory.placement, found, timelines, buffers);
    if !beyond_ggml || plan.is_at_bound() {
        return Ok(plan);
    }
    // Reuse lowers the bound, yet a strategy can be unlucky with merged blocks.
    let mut known = PlannedSizes::of(&plan, sizes);
    let without = |change: fn(&mut Rules)| -> Vec<BufferSpec> {
        let mut buffers = buffers.to_vec();
        buffers.iter_mut().for_each(|buffer| change(&mut buffer.rules));
        buffers
    };
    for buffers in [without(|rules| rules.oldest_source = false), without(|rules| *rules = rules.as_ggml())] {
        let other = live_ranges_in(&mut LiveRangeMemory::default(), graph, &buffers, requests, &mut known, kept);
        if check_totals(&other).is_ok() && may_be_smaller(&other, &plan) {
            let other = place(&mut memory.placement, other, Vec::new(), &buffers);
            plan = if is_smaller(&other, &plan) { other } else { plan };
        }
        if plan.is_at_bound() {
            break;
        }
    }
    Ok(plan)
}

/// Finds the live ranges that [`plan`] places first: with every reuse that the rules of the buffers allow. [`plan`]
/// tries others only where no placement of these is at the lower bound.
///
/// # Errors
/// [`PlanError::TooLarge`] when sizes overflow.
pub fn shared_live_ranges(
    graph: &Graph,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut dyn Sizes,
) -> Result<LiveRanges, PlanError> {
    let mut sizes = |tensor: TensorId, buffer: BufferIndex| sizes.alloc_size(tensor, buffer);
    let by_ggml = plan_of_inputs(graph, buffers, requests, &mut sizes);
    let kept = by_ggml.map_or_else(Vec::new, |plan| inputs_to_keep(graph, buffers, &plan));
    let mut found = live_ranges_in(&mut LiveRangeMemory::default(), graph, buffers, requests, &mut sizes, &kept);
    check_totals(&found)?;
    compute_inside_concats(graph, buffers, &mut found);
    Ok(found)
}

fn check_totals(live_ranges: &LiveRanges) -> Result<(), PlanError> {
    for (buffer, blocks) in (0..).zip(&live_ranges.blocks) {
        blocks.check_total().map_err(|TooLarge { bytes }| PlanError::TooLarge { buffer, bytes })?;
    }
    match live_ranges.inactive_owners.iter().find(|node| node.alloc_size > Bytes::MAX / 2) {
        Some(&InactiveNode { buffer, alloc_size: bytes, .. }) => Err(PlanError::TooLarge { buffer, bytes }),
        None => Ok(()),
    }
}

/// Places the blocks of all buffers. `timelines` has, by buffer, the timeline of its blocks, where it is known.
fn place(
    memory: &mut PlacementMemory,
    mut live_ranges: LiveRanges,
    timelines: Vec<Option<Timeline>>,
    buffers: &[BufferSpec],
) -> GraphPlan {
    let problems = live_ranges.take_problems(buffers);
    let mut timelines = timelines.into_iter();
    let chosen = problems
        .iter()
        .zip(buffers)
        .map(|(problem, buffer)| choose_in(memory, problem, timelines.next().flatten(), buffer.effort))
        .collect();
    let LiveRanges { allocations, inactive, inactive_owners, .. } = live_ranges;
    let mut plan = GraphPlan { buffers: chosen, problems, allocations, inactive, inactive_owners };
    plan.make_room_for_inactive(buffers);
    plan
}

/// Returns `true` if a plan for these live ranges may be smaller than `plan`, or in fewer chunks, in some buffer.
fn may_be_smaller(live_ranges: &LiveRanges, plan: &GraphPlan) -> bool {
    let bound = |blocks| Timeline::of_blocks(blocks).lower_bound;
    let mut buffers = live_ranges.blocks.iter().zip(&plan.buffers);
    buffers.any(|(blocks, plan)| plan.placement.chunks.len() > 1 || bound(blocks) < plan.placement.size())
}

/// Returns `true` if some buffer of `plan` is smaller, or in fewer chunks, than in `other`.
fn is_smaller(plan: &GraphPlan, other: &GraphPlan) -> bool {
    plan.buffers.iter().zip(&other.buffers).any(|(buffer, other)| {
        buffer.placement.size() < other.placement.size() || buffer.placement.chunks.len() < other.placement.chunks.len()
    })
}
