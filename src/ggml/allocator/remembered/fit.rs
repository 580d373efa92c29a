//! Whether a remembered plan fits another graph than the planned one.
//!
//! Programs rebuild their graph for every token and expect the reserved plan to serve it. ggml accepts a graph if the
//! numbers of nodes and the sizes match; with other sources it may then read memory that the plan has reused. Here the
//! graph is compared with the planned one tensor by tensor: sources, flags, views, and everything that in-place reuse
//! depends on. This works on live tensors, since it may run for every token.

use crate::graph::{Flags, Operation, TensorId};
use crate::placement::Bytes;

use crate::ggml::allocator::remembered::plan::{Expectations, MemorySource, RememberedPlan};
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::ids::Ids;
use crate::ggml::live::ids::id_of;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};

/// A graph that fits a plan.
#[derive(Debug)]
pub struct FittedGraph<'g> {
    /// Its tensors, by the ids of the planned graph; `None` if nothing refers to a tensor of that id.
    pub tensors: Vec<Option<TensorRef<'g>>>,
    /// The number of tensors that need memory of the plan.
    pub unassigned: usize,
    /// The sum of their sizes in bytes, whatever memory they share.
    pub needed: Bytes,
    /// The sum of the sizes that were planned for them.
    pub planned: Bytes,
}

/// Maps the tensors of `graph` to the ids of the planned graph. `None` if the plan does not fit.
pub fn fit<'g>(
    planned: &RememberedPlan,
    runtime: &Runtime,
    buffers: &[BufferType],
    graph: GraphRef<'g>,
) -> Option<FittedGraph<'g>> {
    let plain = &planned.graph;
    if plain.leafs().len() != graph.leafs.len() || plain.nodes().len() != graph.nodes.len() {
        return None;
    }
    let tensors = vec![None; plain.tensors().len()];
    let mut fitted = FittedGraph { tensors, unassigned: 0, needed: 0, planned: 0 };
    let ids = plain.leafs().iter().chain(plain.nodes());
    for (&id, &tensor) in ids.zip(graph.leafs.iter().chain(graph.nodes)) {
        fitted.bind(id, tensor).then_some(())?;
    }
    let comparison = Comparison { planned, expectations: planned.expectations(), runtime, buffers };
    comparison.compare(&mut fitted)?;
    let fits = comparison.unlisted_stay_unlisted(graph, &fitted) && comparison.sizes_fit(&mut fitted);
    fits.then_some(fitted)
}

struct Comparison<'a> {
    planned: &'a RememberedPlan,
    expectations: &'a Expectations,
    runtime: &'a Runtime,
    buffers: &'a [BufferType],
}

impl Comparison<'_> {
    /// Compares everything that must be equal to the planned graph.
    fn compare(&self, fitted: &mut FittedGraph<'_>) -> Option<()> {
        for (id, memory) in self.expectations.memory.iter().enumerate() {
            let Some(tensor) = fitted.tensors[id] else { continue };
            memory.matches(tensor, fitted).then_some(())?;
            fitted.unassigned += usize::from(memory.is_needed_by(tensor));
            if id < self.planned.listed {
                self.compare_sources(id, tensor, fitted)?;
            }
            self.role_matches(id, tensor).then_some(())?;
        }
        Some(())
    }

    fn compare_sources<'g>(&self, id: usize, tensor: TensorRef<'g>, fitted: &mut FittedGraph<'g>) -> Option<()> {
        let mut sources = tensor.sources();
        for &source in self.planned.graph.sources(id_of(id)) {
            fitted.bind(source, sources.next()?).then_some(())?;
        }
        sources.next().is_none().then_some(())
    }

    /// Returns `true` if the flags have the planned meaning, and the operation is the planned one where memory depends
    /// on it.
    fn role_matches(&self, id: usize, tensor: TensorRef<'_>) -> bool {
        let planned = &self.planned.graph.tensors()[id];
        let relevant = Flags::INPUT.0 | Flags::OUTPUT.0 | Flags::COMPUTE.0;
        let operation = self.runtime.operations.operation(tensor.op());
        (planned.flags.0 ^ tensor.flags()) & relevant == 0
            && planned.is_marker() == (operation == Operation::Marker)
            && (self.in_place_of(id).is_none() || planned.operation == operation)
            && (!self.is_fixed(id)
                || (planned.operation == operation && self.planned.graph.layout(id_of(id)).by_ref() == tensor.layout()))
    }

    fn is_fixed(&self, id: usize) -> bool {
        self.expectations.is_fixed.get(id).is_some_and(|&fixed| fixed)
    }

    fn in_place_of(&self, id: usize) -> Option<TensorId> {
        match self.expectations.memory[id] {
            MemorySource::Planned { in_place_of, .. } => in_place_of,
            _ => None,
        }
    }

    /// Returns `true` if the tensors that were unlisted are distinct and still unlisted: otherwise one would have two
    /// addresses.
    fn unlisted_stay_unlisted(&self, graph: GraphRef<'_>, fitted: &FittedGraph<'_>) -> bool {
        let unlisted: Vec<_> = fitted.tensors[self.planned.listed..].iter().flatten().copied().collect();
        let ids = Ids::from_tensors(unlisted.clone());
        let distinct = ids.tensors().len() == unlisted.len();
        let mut listed = graph.leafs.iter().chain(graph.nodes);
        unlisted.is_empty() || (distinct && !listed.any(|&tensor| ids.contains(tensor)))
    }

    /// Returns `true` if every tensor fits into its planned memory, and has the layout of its in-place source. Adds up
    /// the sizes.
    fn sizes_fit(&self, fitted: &mut FittedGraph<'_>) -> bool {
        (0..fitted.tensors.len()).all(|id| {
            fitted.tensors[id].is_none_or(|tensor| {
                self.has_room_for(id, tensor, fitted) && self.in_place_layout_matches(id, tensor, fitted)
            })
        })
    }

    fn has_room_for(&self, id: usize, tensor: TensorRef<'_>, fitted: &mut FittedGraph<'_>) -> bool {
        match self.expectations.memory[id] {
            MemorySource::Planned { address, alloc_size, .. } if !tensor.has_memory() => {
                let needed = self.buffers[address.buffer as usize].alloc_size(tensor);
                fitted.needed = fitted.needed.saturating_add(needed);
                fitted.planned = fitted.planned.saturating_add(alloc_size);
                needed <= alloc_size
            }
            _ => true,
        }
    }

    fn in_place_layout_matches(&self, id: usize, tensor: TensorRef<'_>, fitted: &FittedGraph<'_>) -> bool {
        let source = self.in_place_of(id).and_then(|source| fitted.tensors[source as usize]);
        source.is_none_or(|source| source.layout() == tensor.layout())
    }
}

impl MemorySource {
    /// Returns `true` if the memory of `tensor` comes from the same source as planned.
    fn matches<'g>(self, tensor: TensorRef<'g>, fitted: &mut FittedGraph<'g>) -> bool {
        match (self, tensor.view_source()) {
            (Self::View { root, at_start }, Some(now)) => {
                fitted.bind(root, now) && (!at_start || tensor.view_offset() == 0)
            }
            (Self::View { .. }, None) | (_, Some(_)) => false,
            (Self::External, None) => tensor.has_memory(),
            // A planned tensor may have memory by now, and then needs none of the plan.
            (Self::Planned { .. } | Self::Unneeded, None) => true,
        }
    }

    /// Returns `true` if `tensor` needs memory of the plan.
    pub fn is_needed_by(self, tensor: TensorRef<'_>) -> bool {
        matches!(self, Self::Planned { .. }) && !tensor.has_memory()
    }
}

impl<'g> FittedGraph<'g> {
    /// Returns `true` if the plan was made for a much larger graph.
    pub fn is_much_smaller(&self) -> bool {
        self.needed < self.planned / 4 * 3
    }

    /// Binds `id` to `tensor` if it is unbound. Returns `false` if it is bound to another tensor.
    fn bind(&mut self, id: TensorId, tensor: TensorRef<'g>) -> bool {
        *self.tensors[id as usize].get_or_insert(tensor) == tensor
    }
}
