//! From lifetimes to addresses.

use std::cmp::Reverse;
use std::fmt;

use crate::placement::{
    Bytes, Choice, ChunkId, Effort, Offset, Problem, Timeline, TooLarge, choose_along, lower_bound, padded,
};

use super::concat::compute_inside_concats;
use super::{Graph, Home, Lifetimes, PoolId, Requests, Rules, Sizes, TensorId, Unplaced, lifetimes};

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
    /// By tensor; `None` for views, external tensors and those that nobody needs, inactive nodes among them.
    pub homes: Vec<Option<Home>>,
    /// The inactive nodes, by id.
    pub inactive: Vec<TensorId>,
    /// Those of them that own memory, by id.
    pub unplaced: Vec<Unplaced>,
}

impl GraphPlan {
    /// Where a tensor with this home lies.
    pub fn address(&self, home: Home) -> Address {
        let spot = self.pools[home.pool as usize].placement.spots[home.block as usize];
        Address { pool: home.pool, chunk: spot.chunk, offset: spot.offset + home.within }
    }

    /// The address of an inactive node: that of the source that it may be in place of, or the start of the largest chunk of its
    /// pool, whatever else lies there. It is neither written nor read, but programs may look at any tensor of a graph, and
    /// the scheduler copies those whose readers are on another backend.
    fn address_of_inactive(&self, node: &Unplaced) -> Address {
        if let Some((address, _)) = node.in_place_of.and_then(|source| self.placed(source)) {
            return address;
        }
        let chunks = &self.pools[node.pool as usize].placement.chunks;
        Address { pool: node.pool, chunk: largest(chunks), offset: 0 }
    }

    /// Where a tensor lies that the plan gives an address to, and the bytes that its buffer type wants for it.
    pub fn placed(&self, tensor: TensorId) -> Option<(Address, Bytes)> {
        match self.homes[tensor as usize] {
            Some(home) => Some((self.address(home), home.alloc_size)),
            None => unplaced(&self.unplaced, tensor).map(|node| (self.address_of_inactive(node), node.alloc_size)),
        }
    }

    /// Is it an inactive node?
    pub fn is_inactive(&self, tensor: TensorId) -> bool {
        self.inactive.binary_search(&tensor).is_ok()
    }

    /// Lets the largest chunk of each pool hold the largest of its inactive nodes. That is rarely more than the blocks take.
    fn make_room_for_inactive(&mut self, pools: &[Pool]) {
        for node in self.unplaced.iter().filter(|node| node.in_place_of.is_none()) {
            let PoolPlan { placement, lower_bound, .. } = &mut self.pools[node.pool as usize];
            let size = padded(node.alloc_size, pools[node.pool as usize].alignment);
            if placement.chunks.is_empty() {
                placement.chunks.push(0);
            }
            let chunk = largest(&placement.chunks) as usize;
            if let Some(chunk) = placement.chunks.get_mut(chunk) {
                *chunk = size.max(*chunk);
            }
            *lower_bound = size.max(*lower_bound);
        }
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
    let mut known = KnownSizes::of(&plan, sizes);
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
    let mut known = KnownSizes::of(&plan, sizes);
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

/// The one of `unplaced`, which are sorted, that is `tensor`.
fn unplaced(unplaced: &[Unplaced], tensor: TensorId) -> Option<&Unplaced> {
    unplaced.binary_search_by_key(&tensor, |node| node.tensor).ok().map(|at| &unplaced[at])
}

/// Sizes that an earlier walk over the same graph has asked for.
struct KnownSizes<'a> {
    homes: Vec<Option<Home>>,
    unplaced: Vec<Unplaced>,
    others: &'a mut dyn Sizes,
}

impl<'a> KnownSizes<'a> {
    fn of(plan: &GraphPlan, others: &'a mut dyn Sizes) -> Self {
        Self { homes: plan.homes.clone(), unplaced: plan.unplaced.clone(), others }
    }
}

impl Sizes for KnownSizes<'_> {
    fn alloc_size(&mut self, tensor: TensorId, pool: PoolId) -> Bytes {
        match self.homes[tensor as usize] {
            Some(home) if home.pool == pool => home.alloc_size,
            _ => match unplaced(&self.unplaced, tensor) {
                Some(node) if node.pool == pool => node.alloc_size,
                _ => self.others.alloc_size(tensor, pool),
            },
        }
    }
}

fn check_totals(lifetimes: &Lifetimes) -> Result<(), PlanError> {
    for (pool, problem) in (0..).zip(&lifetimes.problems) {
        problem.check_total().map_err(|TooLarge { bytes }| PlanError::TooLarge { pool, bytes })?;
    }
    match lifetimes.unplaced.iter().find(|node| node.alloc_size > Bytes::MAX / 2) {
        Some(&Unplaced { pool, alloc_size: bytes, .. }) => Err(PlanError::TooLarge { pool, bytes }),
        None => Ok(()),
    }
}

/// `timelines` has, by pool, the course of its problem, where it is known.
fn place(lifetimes: Lifetimes, timelines: Vec<Option<Timeline>>, pools: &[Pool]) -> GraphPlan {
    let problems = lifetimes.problems.iter().zip(timelines);
    let chosen = problems.zip(pools).map(|((problem, timeline), pool)| {
        choose_along(problem, &timeline.unwrap_or_else(|| Timeline::of(problem)), pool.effort)
    });
    let chosen = chosen.collect();
    let Lifetimes { problems, homes, inactive, unplaced, .. } = lifetimes;
    let mut plan = GraphPlan { pools: chosen, problems, homes, inactive, unplaced };
    plan.make_room_for_inactive(pools);
    plan
}

/// The first of the largest chunks.
fn largest(chunks: &[Bytes]) -> ChunkId {
    let largest = chunks.iter().enumerate().max_by_key(|&(chunk, &size)| (size, Reverse(chunk)));
    largest.map_or(0, |(chunk, _)| ChunkId::try_from(chunk).expect("few chunks"))
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
