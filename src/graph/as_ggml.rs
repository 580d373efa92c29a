//! The plan that ggml's own allocator makes: its rules of sharing, its strategy.

use crate::placement::{BestFit, Bytes, Strategy, TooLarge, lower_bound};

use super::{Graph, GraphPlan, PlanError, Pool, PoolPlan, Requests, Rules, Sizes, lifetimes};

/// Plans `graph` as ggml's own allocator does, offset by offset, whatever rules and effort `pools` say; where that one
/// overwrites what is still needed, the plan keeps it. Asks for the size of each tensor once.
///
/// # Errors
/// [`PlanError::TooLarge`] when sizes overflow.
pub fn plan_as_ggml<S: Sizes>(
    graph: &Graph,
    pools: &[Pool],
    requests: Requests<'_>,
    sizes: &mut S,
) -> Result<GraphPlan, PlanError> {
    let pools: Vec<Pool> = pools.iter().map(|pool| Pool { rules: Rules::GGML, ..*pool }).collect();
    let found = lifetimes(graph, &pools, requests, sizes);
    for (pool, problem) in (0..).zip(&found.problems) {
        problem.check_total().map_err(|TooLarge { bytes }| PlanError::TooLarge { pool, bytes })?;
    }
    let place = |problem| PoolPlan {
        placement: BestFit.place(problem),
        strategy: BestFit.name(),
        lower_bound: lower_bound(problem),
        proven: false,
    };
    let pools = found.problems.iter().map(place).collect();
    Ok(GraphPlan {
        problems: found.problems,
        pools,
        homes: found.homes,
        inactive: found.inactive,
        unplaced: found.unplaced,
    })
}

/// By pool: the bytes that ggml's own allocator takes for `graph`, whatever rules the pools have. `None` where they add
/// up to more than can be addressed.
pub fn sizes_by_ggml<S: Sizes>(
    graph: &Graph,
    pools: &[Pool],
    requests: Requests<'_>,
    sizes: &mut S,
) -> Option<Vec<Bytes>> {
    let plan = plan_as_ggml(graph, pools, requests, sizes).ok()?;
    Some(plan.pools.iter().map(|pool| pool.placement.size()).collect())
}
