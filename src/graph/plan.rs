//! From lifetimes to addresses.

use std::fmt;

use crate::placement::{
    Bytes, Choice, ChunkId, Effort, Offset, Problem, Timeline, TooLarge, choose_along, lower_bound,
};

use super::concat::compute_inside_concats;
use super::{Graph, Home, Lifetimes, PoolId, Requests, Rules, Sizes, TensorId, lifetimes};

/// A source of memory: one buffer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Offsets and sizes are multiples of this power of two.
    pub alignment: Bytes,
    /// The largest buffer, where there is a limit.
    pub max_chunk: Option<Bytes>,
    /// Which memory may be shared in it.
    pub rules: Rules,
    /// How much work the search for smaller offsets in it may do, each time that blocks are placed.
    pub effort: Effort,
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
        Address { pool: home.pool, chunk: spot.chunk, offset: spot.offset + home.within }
    }

    /// Has every pool the bytes of the step that has the most, in one chunk? Then other ways to share memory that take
    /// no more at each step make none smaller.
    fn is_at_bound(&self) -> bool {
        let is_at_bound = |pool: &PoolPlan| pool.placement.size() == pool.lower_bound;
        self.pools.iter().all(|pool| is_at_bound(pool) && pool.placement.chunks.len() <= 1)
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

/// Plans the memory of `graph`: by pool never more than ggml's own allocator takes, as far as that one is right, and
/// never more with an effort above the default than with the default. Asks for the size of each tensor once a pool.
///
/// # Errors
/// [`PlanError::TooLarge`] when sizes overflow.
pub fn plan<S: Sizes>(
    graph: &Graph,
    pools: &[Pool],
    requests: Requests<'_>,
    sizes: &mut S,
) -> Result<GraphPlan, PlanError> {
    if pools.iter().all(|pool| pool.effort <= Effort::default()) {
        return plan_as_said(graph, pools, requests, sizes);
    }
    let mut quick = pools.to_vec();
    quick.iter_mut().for_each(|pool| pool.effort = pool.effort.min(Effort::default()));
    let plan = plan_as_said(graph, &quick, requests, sizes)?;
    if plan.is_at_bound() {
        return Ok(plan);
    }
    let mut known = KnownSizes { homes: plan.homes.clone(), others: sizes };
    let other = plan_as_said(graph, pools, requests, &mut known)?;
    // A longer search looks for other sizes first, and other rules may win a pool and lose another.
    Ok(if is_smaller(&plan, &other) { plan } else { other })
}

/// Plans with just the effort that each pool has.
fn plan_as_said<S: Sizes>(
    graph: &Graph,
    pools: &[Pool],
    requests: Requests<'_>,
    sizes: &mut S,
) -> Result<GraphPlan, PlanError> {
    let mut found = lifetimes(graph, pools, requests, sizes);
    check_totals(&found)?;
    let timelines = compute_inside_concats(graph, pools, &mut found);
    let beyond_ggml = found.beyond_ggml;
    let mut plan = place(found, timelines, pools);
    if !beyond_ggml || plan.is_at_bound() {
        return Ok(plan);
    }
    // Sharing lowers the bound, yet a strategy can be unlucky with blocks that were merged.
    let mut known = KnownSizes { homes: plan.homes.clone(), others: sizes };
    let without = |change: fn(&mut Rules)| -> Vec<Pool> {
        let mut pools = pools.to_vec();
        pools.iter_mut().for_each(|pool| change(&mut pool.rules));
        pools
    };
    for pools in [without(|rules| rules.oldest_source = false), without(|rules| *rules = rules.as_ggml())] {
        let other = lifetimes(graph, &pools, requests, &mut known);
        if check_totals(&other).is_ok() && may_be_smaller(&other, &plan) {
            let other = place(other, pools.iter().map(|_| None).collect(), &pools);
            plan = if is_smaller(&other, &plan) { other } else { plan };
        }
        if plan.is_at_bound() {
            break;
        }
    }
    Ok(plan)
}

/// Finds the lifetimes that [`plan`] places first: with every reuse that the rules of the pools allow. It turns to others
/// only where no placement of these meets the lower bound.
///
/// # Errors
/// [`PlanError::TooLarge`] when sizes overflow.
pub fn shared_lifetimes<S: Sizes>(
    graph: &Graph,
    pools: &[Pool],
    requests: Requests<'_>,
    sizes: &mut S,
) -> Result<Lifetimes, PlanError> {
    let mut found = lifetimes(graph, pools, requests, sizes);
    check_totals(&found)?;
    compute_inside_concats(graph, pools, &mut found);
    Ok(found)
}

/// Sizes that an earlier walk over the same graph has asked for.
struct KnownSizes<'a> {
    homes: Vec<Option<Home>>,
    others: &'a mut dyn Sizes,
}

impl Sizes for KnownSizes<'_> {
    fn alloc_size(&mut self, tensor: TensorId, pool: PoolId) -> Bytes {
        match self.homes[tensor as usize] {
            Some(home) if home.pool == pool => home.alloc_size,
            _ => self.others.alloc_size(tensor, pool),
        }
    }
}

fn check_totals(lifetimes: &Lifetimes) -> Result<(), PlanError> {
    for (pool, problem) in (0..).zip(&lifetimes.problems) {
        problem.check_total().map_err(|TooLarge { bytes }| PlanError::TooLarge { pool, bytes })?;
    }
    Ok(())
}

/// `timelines` has, by pool, the course of its problem, where it is known.
fn place(lifetimes: Lifetimes, timelines: Vec<Option<Timeline>>, pools: &[Pool]) -> GraphPlan {
    let problems = lifetimes.problems.iter().zip(timelines);
    let chosen = problems.zip(pools).map(|((problem, timeline), pool)| {
        choose_along(problem, &timeline.unwrap_or_else(|| Timeline::of(problem)), pool.effort)
    });
    GraphPlan { pools: chosen.collect(), problems: lifetimes.problems, homes: lifetimes.homes }
}

/// Can a plan for these lifetimes be smaller than `plan`, or in fewer chunks, in some pool?
fn may_be_smaller(lifetimes: &Lifetimes, plan: &GraphPlan) -> bool {
    lifetimes
        .problems
        .iter()
        .zip(&plan.pools)
        .any(|(problem, pool)| pool.placement.chunks.len() > 1 || lower_bound(problem) < pool.placement.size())
}

/// Is one pool of `plan` smaller than, or in fewer chunks than, in `other`?
fn is_smaller(plan: &GraphPlan, other: &GraphPlan) -> bool {
    plan.pools.iter().zip(&other.pools).any(|(pool, other)| {
        pool.placement.size() < other.placement.size() || pool.placement.chunks.len() < other.placement.chunks.len()
    })
}
