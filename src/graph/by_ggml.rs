//! What ggml's own allocator would take.

use crate::placement::{BestFit, Bytes, Strategy};

use super::{Graph, Pool, Requests, Rules, Sizes, lifetimes};

/// By pool: the bytes that ggml's own allocator takes for `graph`, whatever rules the pools have. `None` where they add
/// up to more than can be addressed.
pub fn sizes_by_ggml(
    graph: &Graph,
    pools: &[Pool],
    requests: Requests<'_>,
    sizes: &mut dyn Sizes,
) -> Option<Vec<Bytes>> {
    let pools: Vec<Pool> = pools.iter().map(|pool| Pool { rules: Rules::GGML, ..*pool }).collect();
    let found = lifetimes(graph, &pools, requests, sizes);
    let placed = |problem| Some(BestFit.place(problem).size());
    found.problems.iter().map(|problem| problem.check_total().ok().and_then(|()| placed(problem))).collect()
}
