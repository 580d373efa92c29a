//! Does the plan of an earlier graph fit this one?
//!
//! Programs build their graph anew for every token and expect it to be the one that was planned. ggml believes so when
//! the numbers of nodes and the sizes match; but a graph that is wired differently then reads memory that the plan
//! has given to somebody else. Here the new graph is compared with the planned one tensor by tensor: who reads whom,
//! flags, views, and whatever in-place reuse depends on. Works on live tensors, since it runs for every token.

use std::num::NonZero;

use crate::graph::{Address, Flags, Graph, GraphPlan, TensorId};
use crate::placement::Bytes;

use super::buffers::BufferType;
use super::ids::Ids;
use super::read::{Reading, layout};
use super::runtime::Runtime;
use super::tensor::{Description, GraphRef, TensorRef};

/// `GGML_MAX_SRC`.
pub const MAX_SOURCES: usize = 10;

/// A graph as it was when it was planned, and where its tensors go.
#[derive(Debug)]
pub struct Planned {
    leafs: usize,
    /// Ids of the leafs, then of the nodes: the same as their positions, unless a tensor is listed twice.
    positions: Vec<TensorId>,
    /// Where each tensor gets its memory from, by id.
    memory: Vec<Memory>,
    /// How many tensors the plan gives memory to.
    placed: usize,
    /// The source that a tensor is computed in place of, by id.
    in_place_of: Vec<Option<TensorId>>,
    /// Whom the listed tensors read, by id: ids plus one, by slot.
    sources: Vec<[Option<NonZero<u32>>; MAX_SOURCES]>,
    /// What a tensor must stay, by id.
    roles: Vec<Role>,
    /// How the tensors looked in the latest graph that was measured and fitted, by id; empty before the first.
    looks: Vec<Look>,
    /// Has a graph fitted this plan?
    has_served: bool,
    /// The order in which ggml gives tensors their memory: leafs, then for each node its sources and itself.
    order: Vec<TensorId>,
}

/// What the lifetimes of the plan depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Role {
    /// The flags that are heeded.
    flags: u32,
    /// A marker computes nothing.
    is_none: bool,
}

/// Whatever the size of a tensor's memory can depend on, itself and its sources aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    element: u32,
    description: Description,
}

/// Where a tensor's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    /// The plan gives it some.
    Planned { address: Address, alloc_size: Bytes },
    /// It is a view. A node computed in place through it needs it to stay at the start of its root.
    View { root: TensorId, at_start: bool },
    /// It came with memory.
    External,
    /// Nobody needs it.
    Nothing,
}

/// The tensors of a graph that fits, by the ids of the planned graph.
#[derive(Debug)]
pub struct Fitting<'g> {
    tensors: Vec<Option<TensorRef<'g>>>,
    /// How many of them wait for memory of the plan.
    pub waiting: usize,
}

/// What giving a tensor its memory takes.
#[derive(Clone, Copy, Debug)]
pub enum Assignment<'g> {
    /// It gets memory of the plan.
    Place(TensorRef<'g>, Address),
    /// It gets the memory of its root.
    PlaceView(TensorRef<'g>),
}

impl Planned {
    /// Remembers the graph of `reading`, planned as `plan`.
    pub fn new(reading: &Reading<'_>, plan: &GraphPlan) -> Self {
        let (graph, tensors) = (&reading.graph, &reading.tensors);
        let mut memory: Vec<Memory> = (0..).take(tensors.len()).map(|id| memory(graph, plan, id)).collect();
        let in_place_of: Vec<_> = plan.homes.iter().map(|home| home.and_then(|home| home.in_place_of)).collect();
        for &source in in_place_of.iter().flatten() {
            if let Memory::View { at_start, .. } = &mut memory[source as usize] {
                *at_start = true;
            }
        }
        Self {
            leafs: graph.leafs().len(),
            positions: graph.leafs().iter().chain(graph.nodes()).copied().collect(),
            placed: memory.iter().filter(|memory| matches!(memory, Memory::Planned { .. })).count(),
            memory,
            in_place_of,
            sources: (0..).zip(&tensors[..reading.listed]).map(|(id, &tensor)| slots(graph, id, tensor)).collect(),
            roles: graph.tensors().iter().map(|tensor| Role::new(tensor.flags.0, tensor.is_none)).collect(),
            looks: Vec::new(),
            has_served: false,
            order: order(graph),
        }
    }

    /// The tensors of `graph` by planned id, when the plan is right for it.
    pub fn fit<'g>(&mut self, runtime: &Runtime, pools: &[BufferType], graph: GraphRef<'g>) -> Option<Fitting<'g>> {
        if self.leafs != graph.leafs.len() || self.positions.len() != graph.leafs.len() + graph.nodes.len() {
            return None;
        }
        let mut fitting = Fitting { tensors: vec![None; self.memory.len()], waiting: 0 };
        for (&id, &tensor) in self.positions.iter().zip(graph.leafs.iter().chain(graph.nodes)) {
            fitting.is(id, tensor).then_some(())?;
        }
        let changed = self.compare(runtime, &mut fitting)?;
        let fits = self.extras_are_unlisted(graph, &fitting)
            && (changed.is_empty() || self.still_right(pools, &fitting, &changed));
        fits.then_some(())?;
        // Many plans serve one graph only, as where prompts and tokens alternate: looks are worth remembering from the
        // second on. Sizes of tensors that came with memory were not looked at, so such a graph is not remembered.
        let again = std::mem::replace(&mut self.has_served, true);
        if again && fitting.waiting == self.placed && !changed.is_empty() {
            self.remember_looks(&fitting, &changed);
        }
        Some(fitting)
    }

    /// The next graph will look like this one rather than like the planned one: a prompt is planned, then tokens come.
    fn remember_looks(&mut self, fitting: &Fitting<'_>, changed: &[bool]) {
        if self.looks.is_empty() {
            // Nothing is remembered of a graph in which a tensor is missing.
            let looks: Option<_> = fitting.tensors.iter().map(|tensor| tensor.map(Look::of)).collect();
            self.looks = looks.unwrap_or_default();
            return;
        }
        let changes = self.looks.iter_mut().zip(&fitting.tensors).zip(changed).filter(|(_, changed)| **changed);
        for ((look, tensor), _) in changes {
            if let Some(tensor) = *tensor {
                *look = Look::of(tensor);
            }
        }
    }

    /// What the tensors of a fitting graph still need, in ggml's order.
    pub fn assignments<'g>(&self, fitting: &Fitting<'g>) -> impl Iterator<Item = Assignment<'g>> {
        self.order.iter().filter_map(|&id| {
            let tensor = fitting.tensors[id as usize]?;
            match self.memory[id as usize] {
                Memory::Planned { address, .. } if !tensor.has_memory() => Some(Assignment::Place(tensor, address)),
                // An empty root in an empty buffer has no address, and ggml aborts on views of it; they need none either.
                Memory::View { .. } if tensor.buffer().is_null() => tensor
                    .view_source()
                    .filter(|root| !root.buffer().is_null() && !root.data().is_null())
                    .map(|_| Assignment::PlaceView(tensor)),
                _ => None,
            }
        })
    }

    /// Compares everything that must be equal. Answers which tensors do not look as remembered, by id; nothing when all
    /// do.
    fn compare(&self, runtime: &Runtime, fitting: &mut Fitting<'_>) -> Option<Vec<bool>> {
        let mut changed = Vec::new();
        for (id, memory) in self.memory.iter().enumerate() {
            let Some(tensor) = fitting.tensors[id] else { continue };
            memory.is_still_had_by(tensor, fitting).then_some(())?;
            fitting.waiting += usize::from(memory.is_waited_for_by(tensor));
            if let Some(slots) = self.sources.get(id) {
                compare_sources(slots, tensor, fitting)?;
            }
            if !self.looks.get(id).is_some_and(|look| look.is_of(tensor)) {
                self.may_look_so(id, runtime, tensor).then_some(())?;
                changed.resize(self.memory.len(), false);
                changed[id] = true;
            }
        }
        Some(changed)
    }

    /// Has the tensor the role of the planned one, and can it be computed in place where that one was?
    fn may_look_so(&self, id: usize, runtime: &Runtime, tensor: TensorRef<'_>) -> bool {
        let op = tensor.op();
        self.roles[id] == Role::new(tensor.flags(), runtime.operations.is_none(op))
            && (self.in_place_of[id].is_none() || runtime.operations.can_run_in_place(op))
    }

    /// Tensors that were in no list must be in none now: their memory would be planned twice.
    fn extras_are_unlisted(&self, graph: GraphRef<'_>, fitting: &Fitting<'_>) -> bool {
        let extras: Vec<_> = fitting.tensors[self.sources.len()..].iter().flatten().copied().collect();
        let mut ids = Ids::with_capacity(extras.len());
        for &extra in &extras {
            ids.id(extra);
        }
        let distinct = ids.len() == extras.len();
        let mut listed = graph.leafs.iter().chain(graph.nodes);
        extras.is_empty() || (distinct && !listed.any(|&tensor| ids.contains(tensor)))
    }

    /// Tensors that look different must still fit into their memory, and be computed in place only where allowed.
    fn still_right(&self, pools: &[BufferType], fitting: &Fitting<'_>, changed: &[bool]) -> bool {
        fitting.tensors.iter().enumerate().all(|(id, tensor)| {
            let Some(tensor) = *tensor else { return true };
            let mut sources = self.sources.get(id).into_iter().flatten().flatten();
            let touched = changed[id] || sources.any(|slot| changed[slot.get() as usize - 1]);
            !touched || (self.memory[id].has_room_for(pools, tensor) && self.in_place_is_right(id, tensor, fitting))
        })
    }

    fn in_place_is_right(&self, id: usize, tensor: TensorRef<'_>, fitting: &Fitting<'_>) -> bool {
        let source = self.in_place_of[id].and_then(|source| fitting.tensors[source as usize]);
        source.is_none_or(|source| layout(source) == layout(tensor))
    }
}

impl Memory {
    /// Does `tensor` get its memory from where the planned one did?
    fn is_still_had_by<'g>(self, tensor: TensorRef<'g>, fitting: &mut Fitting<'g>) -> bool {
        match (self, tensor.view_source()) {
            (Self::View { root, at_start }, Some(now)) => {
                fitting.is(root, now) && (!at_start || tensor.view_offset() == 0)
            }
            (Self::View { .. }, None) | (_, Some(_)) => false,
            (Self::External, None) => tensor.has_memory(),
            // What was planned may have memory by now: it then does not need the plan's.
            (Self::Planned { .. } | Self::Nothing, None) => true,
        }
    }

    fn is_waited_for_by(self, tensor: TensorRef<'_>) -> bool {
        matches!(self, Self::Planned { .. }) && !tensor.has_memory()
    }

    fn has_room_for(self, pools: &[BufferType], tensor: TensorRef<'_>) -> bool {
        match self {
            Self::Planned { address, alloc_size } if !tensor.has_memory() => {
                pools[address.pool as usize].alloc_size(tensor) <= alloc_size
            }
            _ => true,
        }
    }
}

impl Role {
    fn new(flags: u32, is_none: bool) -> Self {
        Self { flags: flags & (Flags::INPUT.0 | Flags::OUTPUT.0), is_none }
    }
}

impl Look {
    fn of(tensor: TensorRef<'_>) -> Self {
        Self { element: tensor.element(), description: *tensor.description() }
    }

    fn is_of(&self, tensor: TensorRef<'_>) -> bool {
        self.description == *tensor.description() && self.element == tensor.element()
    }
}

impl<'g> Fitting<'g> {
    /// Is `tensor` the one with this id? The first that is seen in an empty place is.
    fn is(&mut self, id: TensorId, tensor: TensorRef<'g>) -> bool {
        *self.tensors[id as usize].get_or_insert(tensor) == tensor
    }

    /// The graph that was just planned fits itself.
    pub fn itself(reading: &Reading<'g>, planned: &Planned) -> Self {
        let waits = |(memory, tensor): &(&Memory, &TensorRef<'_>)| memory.is_waited_for_by(**tensor);
        Self {
            waiting: planned.memory.iter().zip(&reading.tensors).filter(waits).count(),
            tensors: reading.tensors.iter().copied().map(Some).collect(),
        }
    }
}

fn compare_sources<'g>(
    slots: &[Option<NonZero<u32>>; MAX_SOURCES],
    tensor: TensorRef<'g>,
    fitting: &mut Fitting<'g>,
) -> Option<()> {
    for (slot, now) in slots.iter().zip(tensor.sources()) {
        let same = match (slot, now) {
            (Some(id), Some(now)) => fitting.is(id.get() - 1, now),
            (None, None) => true,
            _ => false,
        };
        same.then_some(())?;
    }
    Some(())
}

fn memory(graph: &Graph, plan: &GraphPlan, id: TensorId) -> Memory {
    let tensor = graph.tensor(id);
    match (tensor.view, plan.homes[id as usize]) {
        (Some(view), _) => Memory::View { root: view.root, at_start: false },
        (None, _) if tensor.external => Memory::External,
        (None, Some(home)) => Memory::Planned { address: plan.address(home), alloc_size: home.alloc_size },
        (None, None) => Memory::Nothing,
    }
}

fn slots(graph: &Graph, id: TensorId, tensor: TensorRef<'_>) -> [Option<NonZero<u32>>; MAX_SOURCES] {
    let mut ids = graph.sources(id).iter();
    let mut slots = [None; MAX_SOURCES];
    for (slot, source) in slots.iter_mut().zip(tensor.sources()) {
        *slot = source.and_then(|_| ids.next()).and_then(|&id| NonZero::new(id + 1));
    }
    slots
}

/// Roots come before their views, also where a marker names a view before its root is computed.
fn order(graph: &Graph) -> Vec<TensorId> {
    let mut seen = vec![false; graph.tensors().len()];
    let mut order = Vec::with_capacity(graph.tensors().len());
    let mut visit = |id: TensorId| {
        for id in [graph.root(id), id] {
            if !std::mem::replace(&mut seen[id as usize], true) {
                order.push(id);
            }
        }
    };
    graph.leafs().iter().for_each(|&leaf| visit(leaf));
    for &node in graph.nodes() {
        graph.sources(node).iter().for_each(|&source| visit(source));
        visit(node);
    }
    order
}
