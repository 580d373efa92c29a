//! What ggml's own allocator does with a graph: its plan, with its rules of reuse and its strategy, and the inputs that it
//! leaves intact, for [`Rules::keep_inputs`].

use std::ops::Range;

use crate::graph::live_ranges::Workspace;
use crate::graph::{
    Allocation, BufferIndex, BufferSpec, Effect, Flags, Graph, Region, Requests, Rules, Sizes, TensorId, live_ranges,
};
use crate::placement::{
    BestFit, Block, Bytes, Location, MAX_CHUNKS, Problem, Step, Strategy, TooLarge, lower_bound, place_as_ggml,
};

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

/// Returns the inputs that are read: tensors that no node computes, to be placed, and that some node accesses.
pub fn read_inputs(graph: &Graph) -> Vec<TensorId> {
    let mut inputs: Vec<TensorId> =
        (0..).zip(graph.tensors()).filter(|&(id, _)| is_input(graph, id)).map(|(id, _)| id).collect();
    if !inputs.is_empty() {
        let accessed = accessed(graph);
        inputs.retain(|&input| !accessed[input as usize].bytes.is_empty());
    }
    inputs
}

/// Returns, each with its buffer, those of [`read_inputs`] whose read parts stay intact when the graph runs at the
/// addresses of `plan`: no node writes another value there. What nodes write into views of an input is its value.
pub fn intact_inputs(graph: &Graph, plan: &GraphPlan) -> Vec<(TensorId, BufferIndex)> {
    let mut places = places(graph, plan);
    places.sort_unstable_by_key(|place| (place.accessed.space, place.accessed.start));
    let mut intact = Vec::new();
    let mut reach = Region { space: 0, start: 0, end: 0 };
    for (at, &Place { accessed: region, input, .. }) in places.iter().enumerate() {
        let is_reached = reach.space == region.space && reach.end > region.start;
        let next = places.get(at + 1).map(|place| place.accessed);
        if !is_reached && next.is_none_or(|next| !next.shares_bytes(region)) {
            intact.extend(input);
        }
        reach = Region { end: region.end.max(if is_reached { reach.end } else { 0 }), ..region };
    }
    intact
}

/// A block.
struct Place {
    block: Region,
    /// From the first to the last byte that nodes access: a buffer type may require more, into which few kernels write.
    accessed: Region,
    /// The input in it that is read.
    input: Option<(TensorId, BufferIndex)>,
    is_written: bool,
}

impl Place {
    fn new(block: Region) -> Self {
        Self { block, accessed: Region { start: block.end, end: block.start, ..block }, input: None, is_written: false }
    }

    /// Notes that bytes are accessed, as offsets in the block.
    fn access(&mut self, bytes: &Range<Bytes>) {
        let Region { start, end, .. } = self.block;
        self.accessed.start = self.accessed.start.min(start.saturating_add(bytes.start));
        self.accessed.end = self.accessed.end.max(end.min(start.saturating_add(bytes.end)));
    }
}

/// Returns the blocks of `plan` that hold an input that is read, or that a node writes.
fn places(graph: &Graph, plan: &GraphPlan) -> Vec<Place> {
    let mut places = Vec::new();
    let mut firsts = Vec::with_capacity(plan.buffers.len());
    for (buffer, (problem, placed)) in (0..).zip(plan.problems.iter().zip(&plan.buffers)) {
        firsts.push(places.len());
        let space = |chunk| buffer * u32::try_from(MAX_CHUNKS).expect("few chunks") + chunk;
        let blocks = problem.blocks().iter().zip(&placed.placement.locations);
        let region = |(block, at): (&Block, &Location)| Region {
            space: space(at.chunk),
            start: at.offset,
            end: at.offset + block.size,
        };
        places.extend(blocks.map(region).map(Place::new));
    }
    for (id, (allocation, access)) in (0..).zip(plan.allocations.iter().zip(accessed(graph))) {
        let is_input = is_input(graph, id);
        // A node that backends skip writes nothing, even if it is read.
        let is_placed = !access.bytes.is_empty() && (is_input || access.is_written);
        let Some(Allocation { buffer, block, .. }) = allocation.filter(|_| is_placed) else { continue };
        let place = &mut places[firsts[buffer as usize] + block as usize];
        place.access(&access.bytes);
        if is_input {
            place.input = Some((id, buffer));
        } else {
            place.is_written = true;
        }
    }
    places.iter_mut().filter(|place| place.is_written).for_each(|place| place.input = None);
    places.retain(|place| place.accessed.size() > 0 && (place.is_written || place.input.is_some()));
    places
}

/// Returns `true` for a tensor without memory that no node computes.
fn is_input(graph: &Graph, id: TensorId) -> bool {
    let tensor = graph.tensor(id);
    tensor.is_owned() && tensor.is_marker() && graph.sources(id).is_empty()
}

/// Returns the nodes that access memory, each with its step: all but markers, views that another node uses, and those that
/// backends skip. A VIEW that at most markers use counts: the scheduler lists one where it copies the root, and the program
/// may read it.
pub fn accessing_nodes(graph: &Graph) -> impl Iterator<Item = (Step, TensorId)> {
    let knows_flag = graph.has_flag_compute();
    let mut is_used = vec![false; graph.tensors().len()];
    for &node in graph.nodes().iter().filter(|&&node| !graph.tensor(node).is_marker()) {
        graph.sources(node).iter().for_each(|&source| is_used[source as usize] = true);
    }
    (0..).zip(graph.nodes().iter().copied()).filter(move |&(_, node)| {
        let tensor = graph.tensor(node);
        match tensor.op.effect() {
            Effect::Nothing => false,
            Effect::View => !is_used[node as usize],
            _ => !knows_flag || tensor.flags.has(Flags::COMPUTE),
        }
    })
}

/// What nodes do with the memory of an owner.
#[derive(Clone)]
struct Access {
    /// From the first to the last byte that they access.
    bytes: Range<Bytes>,
    /// Whether one has its result there.
    is_written: bool,
}

/// Returns, by owner of memory, how nodes access it.
fn accessed(graph: &Graph) -> Vec<Access> {
    const NONE: Access = Access { bytes: Range { start: Bytes::MAX, end: 0 }, is_written: false };
    let mut accessed = vec![NONE; graph.tensors().len()];
    for (_, node) in accessing_nodes(graph) {
        accessed[graph.root(node) as usize].is_written |= !graph.tensor(node).op.is_view();
        for &id in graph.sources(node).iter().chain([&node]) {
            let span = span(graph, id);
            if !span.is_empty() {
                let known = &mut accessed[graph.root(id) as usize].bytes;
                *known = known.start.min(span.start)..known.end.max(span.end);
            }
        }
    }
    accessed
}

/// Returns the bytes of its root that a tensor may access.
fn span(graph: &Graph, id: TensorId) -> Range<Bytes> {
    if !graph.has_layout(id) {
        return 0..Bytes::MAX;
    }
    let layout = graph.layout(id);
    let mut size: Bytes = 0;
    for (dimension, (&extent, &stride)) in layout.ne.iter().zip(&layout.nb).enumerate() {
        let Some(extent) = Bytes::try_from(extent).ok().filter(|&extent| extent > 0) else { return 0..0 };
        // The first stride is that of an element, or of a block of them.
        let steps = if dimension == 0 { extent } else { extent - 1 };
        size = size.saturating_add(steps.saturating_mul(stride));
    }
    let offset = graph.tensor(id).view.map_or(0, |view| view.offset);
    offset..offset.saturating_add(size)
}
