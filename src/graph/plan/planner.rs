//! Plans a graph: live ranges, placements, and other reuse where that may take fewer bytes.

use crate::graph::live_ranges::{Workspace, compute_inside_concats, live_ranges};
use crate::graph::{
    Allocation, BufferIndex, BufferSpec, Graph, InactiveNode, LiveRanges, Requests, Rules, Sizes, TensorId,
};
use crate::placement::{self, Bytes, Effort, Timeline, TooLarge, choose};

use super::as_ggml::{intact_inputs, plan_as_ggml, read_inputs};
use super::prefer::{Devices, prefer_cheaper};
use super::{GraphPlan, PlanError, find_inactive};

/// Which inputs stay intact where [`Rules::keep_inputs`] is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kept {
    /// Those that are intact in the plan of ggml's own allocator.
    #[default]
    AsGgml,
    /// All that are read.
    All,
}

/// What a plan is to have, besides few bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes<'a> {
    /// Which inputs stay intact.
    pub kept: Kept,
    /// Where kernels are to cost little; `None` where their costs do not depend on addresses.
    pub devices: Option<&'a Devices<'a>>,
}

/// Plans the memory of `graph`. No buffer is larger than with ggml's own allocator, where that one is right and no
/// tensor is retained, nor larger with an effort above the default than with the default. Queries the size of each
/// tensor once per buffer. Compiled for each kind of sizes, which is faster; `dyn Sizes` takes less code.
///
/// # Errors
/// [`PlanError::TooLarge`] when sizes overflow.
pub fn plan<S: Sizes + ?Sized>(
    graph: &Graph,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut S,
    wishes: Wishes<'_>,
    workspace: &mut Workspace,
) -> Result<GraphPlan, PlanError> {
    let mut plan = match wishes.kept {
        Kept::All if buffers.iter().any(|buffer| buffer.rules.keep_inputs) => {
            let kept: Vec<_> = read_inputs(graph).into_iter().map(|input| (input, 0)).collect();
            plan_keeping(graph, buffers, requests, sizes, &kept, workspace)
        }
        _ => plan_keeping_as_ggml(graph, buffers, requests, sizes, workspace),
    }?;
    if let Some(devices) = wishes.devices {
        prefer_cheaper(&mut plan, requests, devices);
    }
    Ok(plan)
}

/// Plans with the inputs intact that are intact in the plan of ggml's own allocator, where the rules want that.
fn plan_keeping_as_ggml<S: Sizes + ?Sized>(
    graph: &Graph,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut S,
    workspace: &mut Workspace,
) -> Result<GraphPlan, PlanError> {
    let by_ggml = plan_of_inputs(graph, buffers, requests, sizes);
    let kept = by_ggml.as_ref().map_or_else(Vec::new, |plan| inputs_to_keep(graph, buffers, plan));
    let Some(by_ggml) = by_ggml.filter(|_| !kept.is_empty()) else {
        return plan_keeping(graph, buffers, requests, sizes, &[], workspace);
    };
    let mut others = |tensor: TensorId, buffer: BufferIndex| sizes.alloc_size(tensor, buffer);
    let mut known = PlannedSizes::of(&by_ggml, &mut others);
    let plan = plan_keeping(graph, buffers, requests, &mut known, &kept, workspace)?;
    // At the offsets of ggml's own plan these inputs are intact, and no placement need be found that is as small.
    let is_allowed = graph.retention().is_empty() && buffers.iter().all(|buffer| buffer.rules.in_place);
    Ok(if is_allowed && is_smaller(&by_ggml, &plan) { by_ggml } else { plan })
}

/// Returns the plan of ggml's own allocator where it decides which inputs are kept: some buffer has the rule for it,
/// and the graph has inputs.
fn plan_of_inputs<S: Sizes + ?Sized>(
    graph: &Graph,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut S,
) -> Option<GraphPlan> {
    let is_wanted = buffers.iter().any(|buffer| buffer.rules.keep_inputs) && !read_inputs(graph).is_empty();
    let mut sizes = |tensor: TensorId, buffer: BufferIndex| sizes.alloc_size(tensor, buffer);
    if is_wanted { plan_as_ggml(graph, buffers, requests, &mut sizes).ok() } else { None }
}

/// Returns, each with its buffer, the inputs of [`Kept::AsGgml`], which stay to the end where the rules of their buffer
/// want that.
fn inputs_to_keep(graph: &Graph, buffers: &[BufferSpec], by_ggml: &GraphPlan) -> Vec<(TensorId, BufferIndex)> {
    let mut kept = intact_inputs(graph, by_ggml);
    kept.retain(|&(_, buffer)| buffers[buffer as usize].rules.keep_inputs);
    kept
}

/// Plans and keeps the inputs `kept` to the end, each with its buffer, whatever the rules say. With an effort above the
/// default, the plan is compared with that of the default.
fn plan_keeping<S: Sizes + ?Sized>(
    graph: &Graph,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut S,
    kept: &[(TensorId, BufferIndex)],
    workspace: &mut Workspace,
) -> Result<GraphPlan, PlanError> {
    if buffers.iter().all(|buffer| buffer.effort <= Effort::default()) {
        return plan_once(graph, buffers, requests, sizes, kept, workspace);
    }
    let mut quick = buffers.to_vec();
    quick.iter_mut().for_each(|buffer| buffer.effort = buffer.effort.min(Effort::default()));
    let plan = plan_once(graph, &quick, requests, sizes, kept, workspace)?;
    if plan.is_at_bound() {
        return Ok(plan);
    }
    let mut others = |tensor: TensorId, buffer: BufferIndex| sizes.alloc_size(tensor, buffer);
    let mut known = PlannedSizes::of(&plan, &mut others);
    let other = plan_once(graph, buffers, requests, &mut known, kept, workspace)?;
    // A longer search tries other sizes first, and other rules may win one buffer and lose another.
    Ok(if is_smaller(&plan, &other) { plan } else { other })
}

/// Plans with the effort of each buffer, without comparing it with the default.
fn plan_once<S: Sizes + ?Sized>(
    graph: &Graph,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut S,
    kept: &[(TensorId, BufferIndex)],
    workspace: &mut Workspace,
) -> Result<GraphPlan, PlanError> {
    let mut found = live_ranges(graph, buffers, requests, sizes, kept, workspace);
    check_totals(&found)?;
    let has_concats = !found.concats.is_empty();
    let timelines = if has_concats { compute_inside_concats(graph, buffers, &mut found) } else { Vec::new() };
    let beyond_ggml = found.beyond_ggml;
    let mut plan = place(found, timelines, buffers, &mut workspace.placement);
    if !beyond_ggml || plan.is_at_bound() {
        return Ok(plan);
    }
    // Reuse lowers the bound, yet a strategy can be unlucky with merged blocks.
    let mut others = |tensor: TensorId, buffer: BufferIndex| sizes.alloc_size(tensor, buffer);
    let mut known = PlannedSizes::of(&plan, &mut others);
    let without = |change: fn(&mut Rules)| -> Vec<BufferSpec> {
        let mut buffers = buffers.to_vec();
        buffers.iter_mut().for_each(|buffer| change(&mut buffer.rules));
        buffers
    };
    for buffers in [without(|rules| rules.oldest_source = false), without(|rules| *rules = rules.as_ggml())] {
        let other = live_ranges(graph, &buffers, requests, &mut known, kept, &mut Workspace::default());
        if check_totals(&other).is_ok() && may_be_smaller(&other, &plan) {
            let other = place(other, Vec::new(), &buffers, &mut workspace.placement);
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
    let by_ggml = plan_of_inputs(graph, buffers, requests, sizes);
    let kept = by_ggml.map_or_else(Vec::new, |plan| inputs_to_keep(graph, buffers, &plan));
    let mut found = live_ranges(graph, buffers, requests, sizes, &kept, &mut Workspace::default());
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
    mut live_ranges: LiveRanges,
    timelines: Vec<Option<Timeline>>,
    buffers: &[BufferSpec],
    workspace: &mut placement::Workspace,
) -> GraphPlan {
    let problems = live_ranges.take_problems(buffers);
    let mut timelines = timelines.into_iter();
    let chosen = problems
        .iter()
        .zip(buffers)
        .map(|(problem, buffer)| choose(problem, timelines.next().flatten(), buffer.effort, workspace))
        .collect();
    let LiveRanges { allocations, inactive, inactive_owners, .. } = live_ranges;
    let mut plan = GraphPlan { buffers: chosen, problems, allocations, inactive, inactive_owners };
    plan.make_room_for_inactive(buffers);
    plan
}

/// Returns `true` if a plan for these live ranges may be smaller than `plan`, or in fewer chunks, in some buffer.
fn may_be_smaller(live_ranges: &LiveRanges, plan: &GraphPlan) -> bool {
    let bound = |blocks| Timeline::of(blocks).lower_bound;
    let mut buffers = live_ranges.blocks.iter().zip(&plan.buffers);
    buffers.any(|(blocks, plan)| plan.placement.chunks.len() > 1 || bound(blocks) < plan.placement.size())
}

/// Returns `true` if some buffer of `plan` is smaller, or in fewer chunks, than in `other`.
fn is_smaller(plan: &GraphPlan, other: &GraphPlan) -> bool {
    plan.buffers.iter().zip(&other.buffers).any(|(buffer, other)| {
        buffer.placement.size() < other.placement.size() || buffer.placement.chunks.len() < other.placement.chunks.len()
    })
}

/// The sizes that an earlier plan of the graph queried; others are queried when needed.
struct PlannedSizes<'a> {
    allocations: Vec<Option<Allocation>>,
    inactive_owners: Vec<InactiveNode>,
    others: &'a mut dyn Sizes,
}

impl<'a> PlannedSizes<'a> {
    /// Takes the sizes of `plan`.
    fn of(plan: &GraphPlan, others: &'a mut dyn Sizes) -> Self {
        Self { allocations: plan.allocations.clone(), inactive_owners: plan.inactive_owners.clone(), others }
    }
}

impl Sizes for PlannedSizes<'_> {
    fn alloc_size(&mut self, tensor: TensorId, buffer: BufferIndex) -> Bytes {
        match self.allocations[tensor as usize] {
            Some(allocation) if allocation.buffer == buffer => allocation.alloc_size,
            _ => match find_inactive(&self.inactive_owners, tensor) {
                Some(node) if node.buffer == buffer => node.alloc_size,
                _ => self.others.alloc_size(tensor, buffer),
            },
        }
    }
}
