//! The plan that ggml's own allocator makes: its rules of reuse, its strategy.

use crate::graph::live_ranges::Workspace;
use crate::graph::{Allocation, BufferSpec, Graph, Requests, Rules, Sizes, live_ranges};
use crate::placement::{BestFit, Bytes, Problem, Step, Strategy, TooLarge, lower_bound, place_as_ggml};

use super::{BufferPlan, GraphPlan, PlanError};

/// Plans `graph` as ggml's own allocator does, offset by offset, whatever the rules and effort of `buffers`; where that
/// one overwrites live values, the plan keeps them. It retains no tensors. Queries the size of each tensor once.
///
/// # Errors
/// [`PlanError::TooLarge`] when sizes overflow.
pub fn plan_as_ggml(
    graph: &Graph,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut dyn Sizes,
) -> Result<GraphPlan, PlanError> {
    let buffers: Vec<BufferSpec> = buffers.iter().map(|buffer| BufferSpec { rules: Rules::GGML, ..*buffer }).collect();
    let mut found = match graph.without_retention() {
        Some(graph) => live_ranges(&graph, &buffers, requests, sizes, &[], &mut Workspace::default()),
        None => live_ranges(graph, &buffers, requests, sizes, &[], &mut Workspace::default()),
    };
    let problems = found.take_problems(&buffers);
    for (buffer, problem) in (0..).zip(&problems) {
        problem.check_total().map_err(|TooLarge { bytes }| PlanError::TooLarge { buffer, bytes })?;
    }
    let orders = release_orders(graph, &found.allocations, &problems);
    let place = |(problem, order): (&Problem, &Vec<usize>)| BufferPlan {
        placement: place_as_ggml(problem, |block| order[block as usize]),
        strategy: BestFit.name(),
        lower_bound: lower_bound(problem),
        proven: false,
    };
    let buffers = problems.iter().zip(&orders).map(place).collect();
    Ok(GraphPlan {
        problems,
        buffers,
        allocations: found.allocations,
        inactive: found.inactive,
        inactive_owners: found.inactive_owners,
    })
}

/// Returns, by buffer and block, the slot of the source with which ggml's allocator releases the block: that of the last
/// source in the block at the step of its last use.
fn release_orders(graph: &Graph, allocations: &[Option<Allocation>], problems: &[Problem]) -> Vec<Vec<usize>> {
    let mut orders: Vec<Vec<usize>> = problems.iter().map(|problem| vec![0; problem.blocks().len()]).collect();
    for (end_step, &node) in (1..).zip(graph.nodes()) {
        for (slot, &source) in graph.sources(node).iter().enumerate() {
            let Some(Allocation { buffer, block, .. }) = allocations[graph.root(source) as usize] else { continue };
            let last: Step = problems[buffer as usize].blocks()[block as usize].end_step;
            if last == end_step {
                orders[buffer as usize][block as usize] = slot;
            }
        }
    }
    orders
}

/// Returns, by buffer, the bytes that ggml's own allocator takes for `graph`, whatever the rules of the buffers. `None`
/// where sizes overflow.
pub fn ggml_alloc_sizes(
    graph: &Graph,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut dyn Sizes,
) -> Option<Vec<Bytes>> {
    let plan = plan_as_ggml(graph, buffers, requests, sizes).ok()?;
    Some(plan.buffers.iter().map(|buffer| buffer.placement.size()).collect())
}
