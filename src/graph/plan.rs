//! From lifetimes to addresses.

use std::fmt;

use crate::placement::{Bytes, Choice, ChunkId, Offset, Problem, TooLarge, choose};

use super::{Graph, Home, Lifetimes, PoolId, Requests, Rules, Sizes, lifetimes};

/// A source of memory: one buffer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Offsets and sizes are multiples of this power of two.
    pub alignment: Bytes,
    /// The largest buffer, where there is a limit.
    pub max_chunk: Option<Bytes>,
}

/// Where a tensor lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The pool.
    pub pool: PoolId,
    /// Which of the pool's chunks.
    pub chunk: ChunkId,
    /// Bytes from the start of the chunk.
    pub offset: Offset,
}

/// The memory of one pool.
pub type PoolPlan = Choice;

/// Where every tensor of a graph lies.
#[derive(Debug)]
pub struct GraphPlan {
    /// By pool: the blocks.
    pub problems: Vec<Problem>,
    /// By pool: where they lie.
    pub pools: Vec<PoolPlan>,
    /// By tensor; `None` for views, external tensors and those that nobody needs.
    pub homes: Vec<Option<Home>>,
}

impl GraphPlan {
    /// Where a tensor with this home lies.
    pub fn address(&self, home: Home) -> Address {
        let spot = self.pools[home.pool as usize].placement.spots[home.block as usize];
        Address { pool: home.pool, chunk: spot.chunk, offset: spot.offset }
    }
}

/// Why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The tensors of a pool add up to more than can be addressed.
    TooLarge {
        /// The pool.
        pool: PoolId,
        /// The sum, or the largest number there is.
        bytes: Bytes,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { pool, bytes } => {
                write!(f, "the tensors of buffer {pool} add up to {bytes} bytes, more than can be addressed")
            }
        }
    }
}

/// Plans the memory of `graph`: by pool never more than ggml's own allocator takes, as far as that one is right.
///
/// # Errors
/// [`PlanError::TooLarge`] when sizes overflow.
pub fn plan(
    graph: &Graph,
    pools: &[Pool],
    requests: Requests<'_>,
    rules: Rules,
    sizes: &mut dyn Sizes,
) -> Result<GraphPlan, PlanError> {
    let found = lifetimes(graph, pools, requests, rules, sizes);
    let may_be_worse = found.reused_through_view;
    let plan = place(found)?;
    if !may_be_worse || plan.pools.iter().all(|pool| pool.is_optimal() && pool.placement.chunks.len() <= 1) {
        return Ok(plan);
    }
    // Sharing lowers the bound, yet a strategy can be unlucky with the merged blocks.
    let plain_rules = Rules { in_place_through_views: false, ..rules };
    match place(lifetimes(graph, pools, requests, plain_rules, sizes)) {
        Ok(plain) if is_smaller(&plain, &plan) => Ok(plain),
        _ => Ok(plan),
    }
}

fn place(lifetimes: Lifetimes) -> Result<GraphPlan, PlanError> {
    for (pool, problem) in (0..).zip(&lifetimes.problems) {
        problem.check_total().map_err(|TooLarge { bytes }| PlanError::TooLarge { pool, bytes })?;
    }
    let pools = lifetimes.problems.iter().map(choose).collect();
    Ok(GraphPlan { problems: lifetimes.problems, pools, homes: lifetimes.homes })
}

/// Is one pool of `plan` smaller than, or in fewer chunks than, in `other`?
fn is_smaller(plan: &GraphPlan, other: &GraphPlan) -> bool {
    plan.pools.iter().zip(&other.pools).any(|(pool, other)| {
        pool.placement.size() < other.placement.size() || pool.placement.chunks.len() < other.placement.chunks.len()
    })
}
