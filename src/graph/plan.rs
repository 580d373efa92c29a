//! From live ranges to addresses.

use std::cmp::Reverse;
use std::fmt;

use crate::placement::{
    Bytes, Choice, ChunkId, Effort, Offset, Problem, Timeline, TooLarge, choose_with_timeline, lower_bound, padded,
};

use super::concat::compute_inside_concats;
use super::{Allocation, BufferIndex, Graph, InactiveNode, LiveRanges, Requests, Rules, Sizes, TensorId, live_ranges};

/// A source of memory: one buffer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSpec {
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
    /// The buffer.
    pub buffer: BufferIndex,
    /// Which of the buffer's chunks.
    pub chunk: ChunkId,
    /// Bytes from the start of the chunk.
    pub offset: Offset,
}

/// The memory of one buffer.
pub type BufferPlan = Choice;

/// Where every tensor of a graph lies.
#[derive(Debug)]
pub struct GraphPlan {
    /// By buffer: the blocks.
    pub problems: Vec<Problem>,
    /// By buffer: where they lie.
    pub buffers: Vec<BufferPlan>,
    /// By tensor; `None` for views, external tensors and those that nobody needs, inactive nodes among them.
    pub allocations: Vec<Option<Allocation>>,
    /// The inactive nodes, by id.
    pub inactive: Vec<TensorId>,
    /// Those of them that own memory, by id.
    pub inactive_owners: Vec<InactiveNode>,
}

impl GraphPlan {
    /// Where a tensor with this allocation lies.
    pub fn address(&self, allocation: Allocation) -> Address {
        let location = self.buffers[allocation.buffer as usize].placement.locations[allocation.block as usize];
        Address { buffer: allocation.buffer, chunk: location.chunk, offset: location.offset + allocation.within }
    }

    /// The address of an inactive node: that of the source that it may be in place of, or the start of the largest chunk of its
    /// buffer, whatever else lies there. It is neither written nor read, but programs may look at any tensor of a graph, and
    /// the scheduler copies those whose readers are on another backend.
    fn address_of_inactive(&self, node: &InactiveNode) -> Address {
        if let Some((address, _)) = node.in_place_of.and_then(|source| self.placed(source)) {
            return address;
        }
        let chunks = &self.buffers[node.buffer as usize].placement.chunks;
        Address { buffer: node.buffer, chunk: largest(chunks), offset: 0 }
    }

    /// Where a tensor lies that the plan gives an address to, and the bytes that its buffer type wants for it.
    pub fn placed(&self, tensor: TensorId) -> Option<(Address, Bytes)> {
        match self.allocations[tensor as usize] {
            Some(allocation) => Some((self.address(allocation), allocation.alloc_size)),
            None => inactive_owners(&self.inactive_owners, tensor)
                .map(|node| (self.address_of_inactive(node), node.alloc_size)),
        }
    }

    /// Is it an inactive node?
    pub fn is_inactive(&self, tensor: TensorId) -> bool {
        self.inactive.binary_search(&tensor).is_ok()
    }

    /// Lets the largest chunk of each buffer hold the largest of its inactive nodes. That is rarely more than the blocks take.
    fn make_room_for_inactive(&mut self, buffers: &[BufferSpec]) {
        for node in self.inactive_owners.iter().filter(|node| node.in_place_of.is_none()) {
            let BufferPlan { placement, lower_bound, .. } = &mut self.buffers[node.buffer as usize];
            let size = padded(node.alloc_size, buffers[node.buffer as usize].alignment);
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

    /// Has every buffer the bytes of the step that has the most, in one chunk? Then other ways to share memory that take
    /// no more at each step make none smaller.
    fn is_at_bound(&self) -> bool {
        let is_at_bound = |buffer: &BufferPlan| buffer.placement.size() == buffer.lower_bound;
        self.buffers.iter().all(|buffer| is_at_bound(buffer) && buffer.placement.chunks.len() <= 1)
    }
}

/// Why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The tensors of a buffer add up to more than can be addressed.
    TooLarge {
        /// The buffer.
        buffer: BufferIndex,
        /// The sum, or the largest number there is.
        bytes: Bytes,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { buffer, bytes } => {
                write!(f, "the tensors of buffer {buffer} add up to {bytes} bytes, more than can be addressed")
            }
        }
    }
}

/// Plans the memory of `graph`: by buffer never more than ggml's own allocator takes, as far as that one is right, and
/// never more with an effort above the default than with the default. Asks for the size of each tensor once a buffer.
///
/// # Errors
/// [`PlanError::TooLarge`] when sizes overflow.
pub fn plan<S: Sizes>(
    graph: &Graph,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut S,
) -> Result<GraphPlan, PlanError> {
    if buffers.iter().all(|buffer| buffer.effort <= Effort::default()) {
        return plan_as_said(graph, buffers, requests, sizes);
    }
    let mut quick = buffers.to_vec();
    quick.iter_mut().for_each(|buffer| buffer.effort = buffer.effort.min(Effort::default()));
    let plan = plan_as_said(graph, &quick, requests, sizes)?;
    if plan.is_at_bound() {
        return Ok(plan);
    }
    let mut known = KnownSizes::of(&plan, sizes);
    let other = plan_as_said(graph, buffers, requests, &mut known)?;
    // A longer search looks for other sizes first, and other rules may win a buffer and lose another.
    Ok(if is_smaller(&plan, &other) { plan } else { other })
}

/// Plans with just the effort that each buffer has.
fn plan_as_said<S: Sizes>(
    graph: &Graph,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut S,
) -> Result<GraphPlan, PlanError> {
    let mut found = live_ranges(graph, buffers, requests, sizes);
    check_totals(&found)?;
    let timelines = compute_inside_concats(graph, buffers, &mut found);
    let beyond_ggml = found.beyond_ggml;
    let mut plan = place(found, timelines, buffers);
    if !beyond_ggml || plan.is_at_bound() {
        return Ok(plan);
    }
    // Sharing lowers the bound, yet a strategy can be unlucky with blocks that were merged.
    let mut known = KnownSizes::of(&plan, sizes);
    let without = |change: fn(&mut Rules)| -> Vec<BufferSpec> {
        let mut buffers = buffers.to_vec();
        buffers.iter_mut().for_each(|buffer| change(&mut buffer.rules));
        buffers
    };
    for buffers in [without(|rules| rules.oldest_source = false), without(|rules| *rules = rules.as_ggml())] {
        let other = live_ranges(graph, &buffers, requests, &mut known);
        if check_totals(&other).is_ok() && may_be_smaller(&other, &plan) {
            let other = place(other, buffers.iter().map(|_| None).collect(), &buffers);
            plan = if is_smaller(&other, &plan) { other } else { plan };
        }
        if plan.is_at_bound() {
            break;
        }
    }
    Ok(plan)
}

/// Finds the live ranges that [`plan`] places first: with every reuse that the rules of the buffers allow. It turns to others
/// only where no placement of these meets the lower bound.
///
/// # Errors
/// [`PlanError::TooLarge`] when sizes overflow.
pub fn shared_live_ranges<S: Sizes>(
    graph: &Graph,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut S,
) -> Result<LiveRanges, PlanError> {
    let mut found = live_ranges(graph, buffers, requests, sizes);
    check_totals(&found)?;
    compute_inside_concats(graph, buffers, &mut found);
    Ok(found)
}

/// The one of `unplaced`, which are sorted, that is `tensor`.
fn inactive_owners(inactive_owners: &[InactiveNode], tensor: TensorId) -> Option<&InactiveNode> {
    inactive_owners.binary_search_by_key(&tensor, |node| node.tensor).ok().map(|at| &inactive_owners[at])
}

/// Sizes that an earlier walk over the same graph has asked for.
struct KnownSizes<'a> {
    allocations: Vec<Option<Allocation>>,
    inactive_owners: Vec<InactiveNode>,
    others: &'a mut dyn Sizes,
}

impl<'a> KnownSizes<'a> {
    fn of(plan: &GraphPlan, others: &'a mut dyn Sizes) -> Self {
        Self { allocations: plan.allocations.clone(), inactive_owners: plan.inactive_owners.clone(), others }
    }
}

impl Sizes for KnownSizes<'_> {
    fn alloc_size(&mut self, tensor: TensorId, buffer: BufferIndex) -> Bytes {
        match self.allocations[tensor as usize] {
            Some(allocation) if allocation.buffer == buffer => allocation.alloc_size,
            _ => match inactive_owners(&self.inactive_owners, tensor) {
                Some(node) if node.buffer == buffer => node.alloc_size,
                _ => self.others.alloc_size(tensor, buffer),
            },
        }
    }
}

fn check_totals(live_ranges: &LiveRanges) -> Result<(), PlanError> {
    for (buffer, problem) in (0..).zip(&live_ranges.problems) {
        problem.check_total().map_err(|TooLarge { bytes }| PlanError::TooLarge { buffer, bytes })?;
    }
    match live_ranges.inactive_owners.iter().find(|node| node.alloc_size > Bytes::MAX / 2) {
        Some(&InactiveNode { buffer, alloc_size: bytes, .. }) => Err(PlanError::TooLarge { buffer, bytes }),
        None => Ok(()),
    }
}

/// `timelines` has, by buffer, the course of its problem, where it is known.
fn place(live_ranges: LiveRanges, timelines: Vec<Option<Timeline>>, buffers: &[BufferSpec]) -> GraphPlan {
    let problems = live_ranges.problems.iter().zip(timelines);
    let chosen = problems.zip(buffers).map(|((problem, timeline), buffer)| {
        choose_with_timeline(problem, &timeline.unwrap_or_else(|| Timeline::of(problem)), buffer.effort)
    });
    let chosen = chosen.collect();
    let LiveRanges { problems, allocations, inactive, inactive_owners, .. } = live_ranges;
    let mut plan = GraphPlan { buffers: chosen, problems, allocations, inactive, inactive_owners };
    plan.make_room_for_inactive(buffers);
    plan
}

/// The first of the largest chunks.
fn largest(chunks: &[Bytes]) -> ChunkId {
    let largest = chunks.iter().enumerate().max_by_key(|&(chunk, &size)| (size, Reverse(chunk)));
    largest.map_or(0, |(chunk, _)| ChunkId::try_from(chunk).expect("few chunks"))
}

/// Can a plan for these live ranges be smaller than `plan`, or in fewer chunks, in some buffer?
fn may_be_smaller(live_ranges: &LiveRanges, plan: &GraphPlan) -> bool {
    live_ranges
        .problems
        .iter()
        .zip(&plan.buffers)
        .any(|(problem, buffer)| buffer.placement.chunks.len() > 1 || lower_bound(problem) < buffer.placement.size())
}

/// Is one buffer of `plan` smaller than, or in fewer chunks than, in `other`?
fn is_smaller(plan: &GraphPlan, other: &GraphPlan) -> bool {
    plan.buffers.iter().zip(&other.buffers).any(|(buffer, other)| {
        buffer.placement.size() < other.placement.size() || buffer.placement.chunks.len() < other.placement.chunks.len()
    })
}
