//! Does the plan of an earlier graph fit this one?
//!
//! Programs build their graph anew for every token and expect it to be the one that was planned. ggml believes so when
//! the numbers of nodes and the sizes match; but a graph that is wired differently then reads memory that the plan
//! has given to somebody else. Here the new graph is compared with the planned one tensor by tensor: who reads whom,
//! flags, views, and whatever in-place reuse depends on. Works on live tensors, since it runs for every token.

use std::num::NonZero;

use rustc_hash::FxHashSet;

use crate::graph::{Address, Flags, Graph, GraphPlan, TensorId};
use crate::placement::Bytes;

use super::buffers::BufferType;
use super::read::{Reading, layout};
use super::runtime::Runtime;
use super::tensor::{DESCRIBED_FLAGS, DESCRIBED_OP, Description, GraphRef, TensorRef};

/// `GGML_MAX_SRC`.
pub const MAX_SOURCES: usize = 10;

/// A graph as it was when it was planned, and where its tensors go.
#[derive(Debug)]
pub struct Planned {
    leafs: usize,
    /// Ids of the leafs, then of the nodes: the same as their positions, unless a tensor is listed twice.
    listed: Vec<TensorId>,
    /// The first id of those tensors that are only referred to.
    extras: usize,
    entries: Vec<Entry>,
    /// The order in which ggml gives tensors their memory: leafs, then for each node its sources and itself.
    order: Vec<TensorId>,
}

/// One tensor of the planned graph.
#[derive(Debug)]
struct Entry {
    element: u32,
    memory: Memory,
    in_place_of: Option<TensorId>,
    /// Ids plus one, by slot; nothing is compared for tensors that are not nodes.
    sources: Option<[Option<NonZero<u32>>; MAX_SOURCES]>,
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
        let graph = &reading.graph;
        let mut entries: Vec<Entry> = (0..)
            .zip(&reading.tensors)
            .map(|(id, tensor)| Entry {
                element: tensor.element(),
                memory: memory(graph, plan, id),
                in_place_of: plan.homes[id as usize].and_then(|home| home.in_place_of),
                sources: None,
                description: *tensor.description(),
            })
            .collect();
        for &node in graph.nodes() {
            entries[node as usize].sources = Some(slots(graph, reading, node));
            if let Some(source) = entries[node as usize].in_place_of
                && let Memory::View { at_start, .. } = &mut entries[source as usize].memory
            {
                *at_start = true;
            }
        }
        let listed: Vec<TensorId> = graph.leafs().iter().chain(graph.nodes()).copied().collect();
        let extras = listed.iter().max().map_or(0, |&id| id as usize + 1);
        Self { leafs: graph.leafs().len(), listed, extras, entries, order: order(graph) }
    }

    /// The tensors of `graph` by planned id, when the plan is right for it.
    pub fn fit<'g>(&self, runtime: &Runtime, pools: &[BufferType], graph: GraphRef<'g>) -> Option<Fitting<'g>> {
        if self.leafs != graph.leafs.len() || self.listed.len() != graph.leafs.len() + graph.nodes.len() {
            return None;
        }
        let mut fitting = Fitting { tensors: vec![None; self.entries.len()] };
        for (&id, &tensor) in self.listed.iter().zip(graph.leafs.iter().chain(graph.nodes)) {
            fitting.is(id, tensor).then_some(())?;
        }
        let changed = self.compare(runtime, &mut fitting)?;
        let fits = self.extras_are_unlisted(graph, &fitting)
            && (changed.is_empty() || self.still_right(pools, &fitting, &changed));
        fits.then_some(fitting)
    }

    /// What the tensors of a fitting graph still need, in ggml's order.
    pub fn assignments<'g>(&self, fitting: &Fitting<'g>) -> impl Iterator<Item = Assignment<'g>> {
        self.order.iter().filter_map(|&id| {
            let tensor = fitting.tensors[id as usize]?;
            match self.entries[id as usize].memory {
                Memory::Planned { address, .. } if !tensor.has_memory() => Some(Assignment::Place(tensor, address)),
                Memory::View { .. } if tensor.buffer().is_null() => {
                    tensor.view_source().filter(|root| !root.buffer().is_null()).map(|_| Assignment::PlaceView(tensor))
                }
                _ => None,
            }
        })
    }

    /// Compares everything that must be equal. Answers which tensors look different, by id; nothing when none does.
    fn compare(&self, runtime: &Runtime, fitting: &mut Fitting<'_>) -> Option<Vec<bool>> {
        let mut changed = Vec::new();
        for (id, entry) in (0..).zip(&self.entries) {
            let Some(tensor) = fitting.tensors[id as usize] else { continue };
            self.compare_memory(entry, tensor, fitting)?;
            if let Some(slots) = &entry.sources {
                compare_sources(slots, tensor, fitting)?;
            }
            if entry.description != *tensor.description() || entry.element != tensor.element() {
                entry.allows_change(runtime, tensor).then_some(())?;
                changed.resize(self.entries.len(), false);
                changed[id as usize] = true;
            }
        }
        Some(changed)
    }

    fn compare_memory<'g>(&self, entry: &Entry, tensor: TensorRef<'g>, fitting: &mut Fitting<'g>) -> Option<()> {
        let same = match (entry.memory, tensor.view_source()) {
            (Memory::View { root, at_start }, Some(now)) => {
                fitting.is(root, now) && (!at_start || tensor.view_offset() == 0)
            }
            (Memory::View { .. }, None) | (_, Some(_)) => false,
            (Memory::External, None) => tensor.has_memory(),
            // What was planned may have memory by now: it then does not need the plan's.
            (Memory::Planned { .. } | Memory::Nothing, None) => true,
        };
        same.then_some(())
    }

    /// Tensors that were in no list must be in none now: their memory would be planned twice.
    fn extras_are_unlisted(&self, graph: GraphRef<'_>, fitting: &Fitting<'_>) -> bool {
        let extras: FxHashSet<_> = fitting.tensors[self.extras..].iter().flatten().collect();
        let expected = fitting.tensors[self.extras..].iter().flatten().count();
        let mut listed = graph.leafs.iter().chain(graph.nodes);
        extras.is_empty() || (extras.len() == expected && !listed.any(|tensor| extras.contains(tensor)))
    }

    /// Tensors that look different must still fit into their memory, and be computed in place only where allowed.
    fn still_right(&self, pools: &[BufferType], fitting: &Fitting<'_>, changed: &[bool]) -> bool {
        (0..).zip(&self.entries).all(|(id, entry)| {
            let Some(tensor) = fitting.tensors[id as usize] else { return true };
            let sources = entry.sources.iter().flatten().flatten().map(|slot| slot.get() as usize - 1);
            if !changed[id as usize] && !{ sources }.any(|source| changed[source]) {
                return true;
            }
            self.has_room(pools, entry, tensor) && in_place_is_right(entry, tensor, fitting)
        })
    }

    fn has_room(&self, pools: &[BufferType], entry: &Entry, tensor: TensorRef<'_>) -> bool {
        match entry.memory {
            Memory::Planned { address, alloc_size } if !tensor.has_memory() => {
                pools[address.pool as usize].alloc_size(tensor) <= alloc_size
            }
            _ => true,
        }
    }
}

impl Entry {
    /// May the tensor look like this now? Flags and what reuse depends on must be as they were.
    fn allows_change(&self, runtime: &Runtime, tensor: TensorRef<'_>) -> bool {
        const WATCHED: u32 = Flags::INPUT.0 | Flags::OUTPUT.0;
        let (op, flags) = self.described_op_and_flags();
        (flags ^ tensor.flags()) & WATCHED == 0
            && runtime.operations.is_none(op) == runtime.operations.is_none(tensor.op())
            && (self.in_place_of.is_none() || runtime.operations.can_run_in_place(tensor.op()))
    }

    /// The operation and the flags inside the description.
    fn described_op_and_flags(&self) -> (u32, u32) {
        let number = |at: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&self.description[at..at + 4]);
            u32::from_ne_bytes(bytes)
        };
        (number(DESCRIBED_OP), number(DESCRIBED_FLAGS))
    }
}

impl<'g> Fitting<'g> {
    /// Is `tensor` the one with this id? The first that is seen in an empty place is.
    fn is(&mut self, id: TensorId, tensor: TensorRef<'g>) -> bool {
        *self.tensors[id as usize].get_or_insert(tensor) == tensor
    }

    /// The graph that was just planned fits itself.
    pub fn itself(reading: &Reading<'g>) -> Self {
        Self { tensors: reading.tensors.iter().copied().map(Some).collect() }
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

fn in_place_is_right(entry: &Entry, tensor: TensorRef<'_>, fitting: &Fitting<'_>) -> bool {
    let source = entry.in_place_of.and_then(|source| fitting.tensors[source as usize]);
    source.is_none_or(|source| layout(source) == layout(tensor))
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

fn slots(graph: &Graph, reading: &Reading<'_>, node: TensorId) -> [Option<NonZero<u32>>; MAX_SOURCES] {
    let mut ids = graph.sources(node).iter();
    let mut slots = [None; MAX_SOURCES];
    for (slot, source) in slots.iter_mut().zip(reading.tensors[node as usize].sources()) {
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
