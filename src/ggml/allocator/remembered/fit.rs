//! Does the plan of an earlier graph fit this one?
//!
//! Programs build their graph anew for every token and expect it to be the one that was planned. ggml believes so when
//! the numbers of nodes and the sizes match; but a graph that is wired differently then reads memory that the plan
//! has given to somebody else. Here the new graph is compared with the planned one tensor by tensor: who reads whom,
//! flags, views, and whatever in-place reuse depends on. Works on live tensors: it may run for every token.

use crate::graph::{Flags, Operation, TensorId};

use crate::ggml::allocator::remembered::plan::{Memory, RememberedPlan, Wiring};
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::ids::Ids;
use crate::ggml::live::ids::id_of;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};

/// A graph that fits a plan.
#[derive(Debug)]
pub struct Fitting<'g> {
    /// Its tensors, by the ids of the planned graph; `None` where nobody refers to one any more.
    pub tensors: Vec<Option<TensorRef<'g>>>,
    /// How many of them wait for memory of the plan.
    pub waiting: usize,
}

/// The graph by planned ids, when the plan is right for it.
pub fn fit<'g>(
    planned: &RememberedPlan,
    runtime: &Runtime,
    buffers: &[BufferType],
    graph: GraphRef<'g>,
) -> Option<Fitting<'g>> {
    let plain = &planned.graph;
    if plain.leafs().len() != graph.leafs.len() || plain.nodes().len() != graph.nodes.len() {
        return None;
    }
    let mut fitting = Fitting { tensors: vec![None; plain.tensors().len()], waiting: 0 };
    let ids = plain.leafs().iter().chain(plain.nodes());
    for (&id, &tensor) in ids.zip(graph.leafs.iter().chain(graph.nodes)) {
        fitting.is(id, tensor).then_some(())?;
    }
    let comparison = Comparison { planned, wiring: planned.wiring(), runtime, buffers };
    comparison.compare(&mut fitting)?;
    let fits = comparison.extras_are_unlisted(graph, &fitting) && comparison.still_right(&fitting);
    fits.then_some(fitting)
}

struct Comparison<'a> {
    planned: &'a RememberedPlan,
    wiring: &'a Wiring,
    runtime: &'a Runtime,
    buffers: &'a [BufferType],
}

impl Comparison<'_> {
    /// Compares everything that must be equal.
    fn compare(&self, fitting: &mut Fitting<'_>) -> Option<()> {
        for (id, memory) in self.wiring.memory.iter().enumerate() {
            let Some(tensor) = fitting.tensors[id] else { continue };
            memory.is_still_had_by(tensor, fitting).then_some(())?;
            fitting.waiting += usize::from(memory.is_waited_for_by(tensor));
            if id < self.planned.listed {
                self.compare_sources(id, tensor, fitting)?;
            }
            self.may_look_so(id, tensor).then_some(())?;
        }
        Some(())
    }

    fn compare_sources<'g>(&self, id: usize, tensor: TensorRef<'g>, fitting: &mut Fitting<'g>) -> Option<()> {
        let mut sources = tensor.sources();
        for &source in self.planned.graph.sources(id_of(id)) {
            fitting.is(source, sources.next()?).then_some(())?;
        }
        sources.next().is_none().then_some(())
    }

    /// Has the tensor the role of the planned one, and can it be computed in place where that one was?
    fn may_look_so(&self, id: usize, tensor: TensorRef<'_>) -> bool {
        let planned = &self.planned.graph.tensors()[id];
        let heeded = Flags::INPUT.0 | Flags::OUTPUT.0 | Flags::COMPUTE.0;
        let operation = self.runtime.operations.operation(tensor.op());
        (planned.flags.0 ^ tensor.flags()) & heeded == 0
            && planned.is_marker() == (operation == Operation::Marker)
            && (self.in_place_of(id).is_none() || planned.operation == operation)
            && (!self.is_fixed(id)
                || (planned.operation == operation && self.planned.graph.layout(id_of(id)).by_ref() == tensor.layout()))
    }

    fn is_fixed(&self, id: usize) -> bool {
        self.wiring.is_fixed.get(id).is_some_and(|&fixed| fixed)
    }

    fn in_place_of(&self, id: usize) -> Option<TensorId> {
        match self.wiring.memory[id] {
            Memory::Planned { in_place_of, .. } => in_place_of,
            _ => None,
        }
    }

    /// Tensors that were in no list must be in none now: their memory would be planned twice.
    fn extras_are_unlisted(&self, graph: GraphRef<'_>, fitting: &Fitting<'_>) -> bool {
        let extras: Vec<_> = fitting.tensors[self.planned.listed..].iter().flatten().copied().collect();
        let ids = Ids::of(extras.clone());
        let distinct = ids.tensors().len() == extras.len();
        let mut listed = graph.leafs.iter().chain(graph.nodes);
        extras.is_empty() || (distinct && !listed.any(|&tensor| ids.contains(tensor)))
    }

    /// Tensors must fit into their memory, and be computed in place only where allowed.
    fn still_right(&self, fitting: &Fitting<'_>) -> bool {
        fitting.tensors.iter().enumerate().all(|(id, tensor)| {
            tensor.is_none_or(|tensor| self.has_room_for(id, tensor) && self.in_place_is_right(id, tensor, fitting))
        })
    }

    fn has_room_for(&self, id: usize, tensor: TensorRef<'_>) -> bool {
        match self.wiring.memory[id] {
            Memory::Planned { address, alloc_size, .. } if !tensor.has_memory() => {
                self.buffers[address.buffer as usize].alloc_size(tensor) <= alloc_size
            }
            _ => true,
        }
    }

    fn in_place_is_right(&self, id: usize, tensor: TensorRef<'_>, fitting: &Fitting<'_>) -> bool {
        let source = self.in_place_of(id).and_then(|source| fitting.tensors[source as usize]);
        source.is_none_or(|source| source.layout() == tensor.layout())
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

    /// Does `tensor` need what the plan gives it?
    pub fn is_waited_for_by(self, tensor: TensorRef<'_>) -> bool {
        matches!(self, Self::Planned { .. }) && !tensor.has_memory()
    }
}

impl<'g> Fitting<'g> {
    /// Is `tensor` the one with this id? The first that is seen in an empty place is.
    fn is(&mut self, id: TensorId, tensor: TensorRef<'g>) -> bool {
        *self.tensors[id as usize].get_or_insert(tensor) == tensor
    }
}
