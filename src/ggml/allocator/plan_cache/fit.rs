//! Whether a cached plan fits another graph than the planned one: first by the sizes of the tensors, which takes
//! less time, then by everything else.
//!
//! Programs rebuild their graph for every token and expect the reserved plan to serve it. ggml accepts a graph if the
//! numbers of nodes and the sizes match; with other sources it may then read memory that the plan has reused. Here the
//! graph is compared with the planned one tensor by tensor: sources, flags, views, and everything that in-place reuse
//! depends on. This works on live tensors, since it may run for every token.

use crate::graph::{Address, Flags, Op, TensorId, id_of};
use crate::placement::Bytes;

use crate::ggml::allocator::plan_cache::cached_plan::{CachedPlan, Expectations, MemorySource};
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::ids::Ids;
use crate::ggml::live::operations::Operation;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};

/// A graph that fits a plan.
#[derive(Debug)]
pub struct FittedGraph<'g> {
    /// Its tensors, by the ids of the planned graph; `None` if nothing refers to a tensor of that id.
    pub tensors: Vec<Option<TensorRef<'g>>>,
    /// The number of tensors that need memory of the plan.
    pub unassigned: usize,
}

/// A plan with room for a graph: each listed tensor fits into the memory planned for the tensor at its position.
#[derive(Debug)]
pub struct PlanWithRoom<'a, 'g> {
    planned: &'a CachedPlan,
    buffers: &'a [BufferType],
    graph: GraphRef<'g>,
    /// The sum of the bytes that the tensors need, whatever memory they share.
    needed: Bytes,
    /// The sum of the bytes that were planned for them.
    held: Bytes,
}

impl<'a, 'g> PlanWithRoom<'a, 'g> {
    /// Compares the sizes of the listed tensors. `None` if `planned` has no room for `graph`, or was made for other
    /// numbers of leafs and nodes.
    pub fn new(planned: &'a CachedPlan, buffers: &'a [BufferType], graph: GraphRef<'g>) -> Option<Self> {
        let plain = &planned.graph;
        if plain.leafs().len() != graph.leafs.len() || plain.nodes().len() != graph.nodes.len() {
            return None;
        }
        let (mut needed, mut held) = (0, 0);
        for (id, tensor) in listed(planned, graph) {
            if let Some((address, size)) = planned.placed(id)
                && !tensor.has_memory()
            {
                // No plan fits, and backends need not know the size of a view.
                if tensor.view_source().is_some() {
                    return None;
                }
                let alloc_size = buffers[address.buffer as usize].alloc_size(tensor);
                if alloc_size > size {
                    return None;
                }
                needed = alloc_size.saturating_add(needed);
                held = size.saturating_add(held);
            }
        }
        Some(Self { planned, buffers, graph, needed, held })
    }

    /// Returns `true` if the plan was made for a much larger graph.
    pub fn is_much_larger(&self) -> bool {
        self.needed < self.held / 4 * 3
    }

    /// Maps the tensors of the graph to the ids of the planned graph. `None` if the plan does not fit.
    pub fn fit(&self, runtime: &Runtime) -> Option<FittedGraph<'g>> {
        let Self { planned, buffers, graph, .. } = *self;
        let mut fitted = FittedGraph { tensors: vec![None; planned.graph.tensors().len()], unassigned: 0 };
        let comparison = Comparison { planned, expectations: planned.expectations(), runtime, buffers };
        for (id, tensor) in listed(planned, graph) {
            comparison.refers_to(id, tensor, &mut fitted).then_some(())?;
        }
        comparison.compare(&mut fitted)?;
        let fits = comparison.leafs_are_distinct(&fitted)
            && comparison.unlisted_stay_unlisted(graph, &fitted)
            && comparison.unlisted_have_room(&fitted)
            && comparison.in_place_layouts_match(&fitted);
        fits.then_some(fitted)
    }
}

/// Returns `true` if each listed tensor that needs memory fits into the place of the planned one at its position, however
/// they are wired: graphs that ggml's own allocator does not reserve memory for again.
pub fn has_room_by_position(planned: &CachedPlan, buffers: &[BufferType], graph: GraphRef<'_>) -> bool {
    let (leafs, nodes) = (planned.graph.leafs().len(), planned.graph.nodes().len());
    let fits = |(id, tensor): (TensorId, TensorRef<'_>)| {
        let place = || planned.placed(id);
        let has_room = |(address, size): (Address, Bytes)| buffers[address.buffer as usize].alloc_size(tensor) <= size;
        tensor.has_memory() || tensor.view_source().is_some() || place().is_some_and(has_room)
    };
    leafs == graph.leafs.len() && nodes == graph.nodes.len() && listed(planned, graph).all(fits)
}

/// Returns the tensors in the lists of `graph`, each with the id of the one that was planned at its position.
fn listed<'g>(planned: &CachedPlan, graph: GraphRef<'g>) -> impl Iterator<Item = (TensorId, TensorRef<'g>)> {
    let ids = planned.graph.leafs().iter().chain(planned.graph.nodes());
    ids.copied().zip(graph.leafs.iter().chain(graph.nodes).copied())
}

struct Comparison<'a> {
    planned: &'a CachedPlan,
    expectations: &'a Expectations,
    runtime: &'a Runtime,
    buffers: &'a [BufferType],
}

impl Comparison<'_> {
    /// Compares everything that must be equal to the planned graph.
    fn compare(&self, fitted: &mut FittedGraph<'_>) -> Option<()> {
        for (id, memory) in self.expectations.memory.iter().enumerate() {
            let Some(tensor) = fitted.tensors[id] else { continue };
            self.memory_matches(*memory, tensor, fitted).then_some(())?;
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
            self.refers_to(source, sources.next()?, fitted).then_some(())?;
        }
        sources.next().is_none().then_some(())
    }

    /// Returns `true` if `tensor`, which the graph refers to where the planned graph refers to `id`, is that tensor, or
    /// if the plan never reuses the memory of either: it does not matter which of these are read where.
    fn refers_to<'g>(&self, id: TensorId, tensor: TensorRef<'g>, fitted: &mut FittedGraph<'g>) -> bool {
        if fitted.bind(id, tensor) {
            return true;
        }
        let is_kept = |kept: TensorId| fitted.tensors[kept as usize] == Some(tensor);
        self.planned.is_permanent(id)
            && tensor.view_source().is_none()
            && (tensor.has_memory() || self.planned.kept_leafs().any(is_kept))
    }

    /// Returns `true` if the memory of `tensor` comes from the same source as planned.
    fn memory_matches<'g>(&self, planned: MemorySource, tensor: TensorRef<'g>, fitted: &mut FittedGraph<'g>) -> bool {
        match (planned, tensor.view_source()) {
            (MemorySource::View { root, at_start }, Some(now)) => {
                self.refers_to(root, now, fitted) && (!at_start || tensor.view_offset() == 0)
            }
            (MemorySource::View { .. }, None) | (_, Some(_)) => false,
            (MemorySource::External, None) => tensor.has_memory(),
            // A planned tensor may have memory by now, and then needs none of the plan.
            (MemorySource::Planned { .. } | MemorySource::Unneeded, None) => true,
        }
    }

    /// Returns `true` if no leaf that needs memory has two places in the plan: it would get only one of them.
    fn leafs_are_distinct(&self, fitted: &FittedGraph<'_>) -> bool {
        let leafs = self.planned.graph.leafs().iter().map(|&leaf| (leaf, fitted.tensors[leaf as usize]));
        let needed =
            leafs.filter_map(|(leaf, tensor)| tensor.filter(|it| !it.has_memory()).map(|it| (it.address(), leaf)));
        let mut needed: Vec<(usize, TensorId)> = needed.collect();
        needed.sort_unstable();
        needed.windows(2).all(|pair| pair[0].0 != pair[1].0 || pair[0].1 == pair[1].1)
    }

    /// Returns `true` if the flags have the planned meaning, and the operation is the planned one where memory depends
    /// on it.
    fn role_matches(&self, id: usize, tensor: TensorRef<'_>) -> bool {
        let planned = &self.planned.graph.tensors()[id];
        let relevant = Flags::INPUT.0 | Flags::OUTPUT.0 | Flags::COMPUTE.0;
        let Operation { op, in_place } = self.runtime.operations.operation(tensor.op());
        (planned.flags.0 ^ tensor.flags()) & relevant == 0
            && planned.is_marker() == (op == Op::None)
            && (self.in_place_of(id).is_none() || planned.in_place == in_place)
            && (!self.is_fixed(id)
                || (planned.op == op && self.planned.graph.layout(id_of(id)).by_ref() == tensor.layout()))
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
        if unlisted.is_empty() {
            return true;
        }
        let ids = Ids::from_tensors(unlisted.clone());
        let distinct = ids.tensors().len() == unlisted.len();
        let mut listed = graph.leafs.iter().chain(graph.nodes);
        distinct && !listed.any(|&tensor| ids.contains(tensor))
    }

    /// Returns `true` if every unlisted tensor fits into its planned memory.
    fn unlisted_have_room(&self, fitted: &FittedGraph<'_>) -> bool {
        let unlisted = self.expectations.memory.iter().zip(&fitted.tensors).skip(self.planned.listed);
        unlisted.into_iter().all(|(memory, tensor)| match (*memory, *tensor) {
            (MemorySource::Planned { address, alloc_size, .. }, Some(tensor)) if !tensor.has_memory() => {
                self.buffers[address.buffer as usize].alloc_size(tensor) <= alloc_size
            }
            _ => true,
        })
    }

    /// Returns `true` if every tensor that is computed in place has the layout of its source.
    fn in_place_layouts_match(&self, fitted: &FittedGraph<'_>) -> bool {
        (0..).zip(&fitted.tensors).all(|(id, tensor)| {
            let source = self.in_place_of(id).and_then(|source| fitted.tensors[source as usize]);
            source.zip(*tensor).is_none_or(|(source, tensor)| source.layout() == tensor.layout())
        })
    }
}

impl MemorySource {
    /// Returns `true` if `tensor` needs memory of the plan.
    pub fn is_needed_by(self, tensor: TensorRef<'_>) -> bool {
        matches!(self, Self::Planned { .. }) && !tensor.has_memory()
    }
}

impl<'g> FittedGraph<'g> {
    /// Binds `id` to `tensor` if it is unbound. Returns `false` if it is bound to another tensor.
    fn bind(&mut self, id: TensorId, tensor: TensorRef<'g>) -> bool {
        *self.tensors[id as usize].get_or_insert(tensor) == tensor
    }
}
