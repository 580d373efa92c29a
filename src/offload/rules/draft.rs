//! A graph that is being changed: a backend for each tensor, sources replaced by copies, tensors added.

use std::ops::Range;

use crate::graph::{Flags, Graph, LayoutRef, Operation, Retained, Tensor, TensorId, View};

use super::backends::{BackendIndex, Backends, BufferTypeIndex};
use super::placed_graph::PlacedGraph;
use super::scheduled_graph::{Origin, ScheduledGraph};

/// A changing graph. The tensors of the graph keep their ids; those that are added follow.
#[derive(Debug)]
pub struct Draft<'a> {
    pub placed: PlacedGraph<'a>,
    tensors: Vec<Tensor>,
    origins: Vec<Origin>,
    /// By tensor, the tensor of the graph that has its layout.
    layouts: Vec<TensorId>,
    sources: Vec<TensorId>,
    /// By tensor, where its sources are.
    bounds: Vec<Range<usize>>,
    /// The nodes in the order of execution.
    pub nodes: Vec<TensorId>,
    /// By tensor, the backend that runs it.
    pub executes: Vec<Option<BackendIndex>>,
    /// By tensor, the backend in whose memory its result is.
    pub resides: Vec<Option<BackendIndex>>,
}

impl<'a> Draft<'a> {
    /// Begins with a graph and no backends.
    pub fn new(placed: PlacedGraph<'a>) -> Self {
        let graph = placed.graph();
        let count = graph.tensors().len();
        let mut sources = Vec::with_capacity(2 * count);
        let mut bounds = Vec::with_capacity(count);
        let ids = 0..TensorId::try_from(count).expect("ids are 32 bits wide");
        for id in ids.clone() {
            let first = sources.len();
            sources.extend_from_slice(graph.sources(id));
            bounds.push(first..sources.len());
        }
        let with_memory = |(tensor, memory): (&Tensor, &Option<_>)| {
            let external = tensor.external || (memory.is_some() && tensor.view.is_none());
            Tensor { external, ..tensor.clone() }
        };
        Self {
            placed,
            tensors: graph.tensors().iter().zip(placed.memory).map(with_memory).collect(),
            origins: ids.clone().map(Origin::Tensor).collect(),
            layouts: ids.collect(),
            sources,
            bounds,
            nodes: graph.nodes().to_vec(),
            executes: vec![None; count],
            resides: vec![None; count],
        }
    }

    /// Returns a tensor.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id as usize]
    }

    /// Returns the sources of a tensor, as they are now.
    pub fn sources(&self, id: TensorId) -> &[TensorId] {
        &self.sources[self.bounds[id as usize].clone()]
    }

    /// Replaces the source at a position.
    pub fn replace_source(&mut self, id: TensorId, position: usize, source: TensorId) {
        self.sources[self.bounds[id as usize].clone()][position] = source;
    }

    /// Returns the owner of the memory of a tensor.
    pub fn root(&self, id: TensorId) -> TensorId {
        self.tensor(id).view.map_or(id, |view| view.root)
    }

    /// Returns `true` for operations that make a view: the scheduler passes over them.
    pub fn is_view_operation(&self, id: TensorId) -> bool {
        self.tensor(id).operation == Operation::View
    }

    /// Returns `true` if a tensor is in a buffer of weights.
    pub fn is_weight(&self, id: TensorId) -> bool {
        (id as usize) < self.placed.memory.len() && self.placed.is_weight(id)
    }

    /// Returns the type of the buffer that a tensor is in, or will be in as far as backends are known.
    pub fn buffer_type(&self, id: TensorId, backends: &Backends) -> Option<BufferTypeIndex> {
        let root = self.root(id);
        let memory = self.placed.memory.get(root as usize).copied().flatten();
        let assigned = || self.resides[id as usize].or(self.resides[root as usize]);
        memory.map(|memory| memory.buffer_type).or_else(|| assigned().map(|backend| backends.buffer_type(backend)))
    }

    /// Adds flags to a tensor.
    pub fn add_flags(&mut self, id: TensorId, flags: Flags) {
        self.tensors[id as usize].flags.0 |= flags.0;
    }

    /// Adds a tensor without operation that has the layout of `of`, on `backend`.
    pub fn add_copy(&mut self, of: TensorId, backend: BackendIndex, number: u32) -> TensorId {
        self.add(Origin::Copy { of, backend, number }, of, Tensor::new(), &[], backend)
    }

    /// Adds a marker, which keeps `kept` live: a view of the first.
    pub fn add_marker(&mut self, kept: &[TensorId], backend: BackendIndex) -> TensorId {
        let of = kept[0];
        let view = self.tensor(of).view.unwrap_or(View { root: of, offset: 0 });
        let (Origin::Tensor(kept_of)
        | Origin::Staged { of: kept_of }
        | Origin::Copy { of: kept_of, .. }
        | Origin::Marker { of: kept_of }) = self.origins[of as usize];
        self.add(Origin::Marker { of: kept_of }, of, Tensor { view: Some(view), ..Tensor::new() }, kept, backend)
    }

    /// Moves the operation of `node` to a new tensor on `backend`. The node has no operation then: it is where the
    /// result of the new tensor is copied to.
    pub fn stage(&mut self, node: TensorId, backend: BackendIndex) -> TensorId {
        let flags = Flags(self.tensor(node).flags.0 & Flags::COMPUTE.0);
        let computed = Tensor { flags, view: None, external: false, ..self.tensor(node).clone() };
        let sources = self.sources(node).to_vec();
        let staged = self.add(Origin::Staged { of: node }, node, computed, &sources, backend);
        self.tensors[node as usize].operation = Operation::Marker;
        self.bounds[node as usize] = 0..0;
        staged
    }

    fn add(
        &mut self,
        origin: Origin,
        like: TensorId,
        tensor: Tensor,
        sources: &[TensorId],
        backend: BackendIndex,
    ) -> TensorId {
        let id = TensorId::try_from(self.tensors.len()).expect("fewer than 2^32 tensors");
        let first = self.sources.len();
        self.sources.extend_from_slice(sources);
        self.bounds.push(first..self.sources.len());
        self.tensors.push(tensor);
        self.origins.push(origin);
        self.layouts.push(self.layouts[like as usize]);
        self.executes.push(Some(backend));
        self.resides.push(Some(backend));
        id
    }

    /// Returns the graph with these lists, and for each of its tensors where it comes from. Its ids are those that the
    /// allocator gives: leafs, nodes, then tensors that are only referred to.
    pub fn finish(&self, leafs: &[(TensorId, BackendIndex)], nodes: &[(TensorId, BackendIndex)]) -> ScheduledGraph {
        let list = |list: &[(TensorId, BackendIndex)]| list.iter().map(|&(id, _)| id).collect::<Vec<_>>();
        let backends = |list: &[(TensorId, BackendIndex)]| list.iter().map(|&(_, backend)| backend).collect();
        let (order, numbers) = self.numbered(&list(leafs), &list(nodes));
        let number = |&id: &TensorId| numbers[id as usize].expect("all that is referred to is numbered");
        let mut graph = Graph::with_capacity(order.len());
        for &id in &order {
            let tensor = self.tensor(id);
            let view = tensor.view.map(|view| View { root: number(&view.root), ..view });
            self.add_to(&mut graph, Tensor { view, ..tensor.clone() }, self.layouts[id as usize]);
            graph.push_sources(self.sources(id).iter().map(number));
        }
        graph.list_leafs(list(leafs).iter().map(number));
        graph.list_nodes(list(nodes).iter().map(number));
        let retained = self.placed.graph().retention().list().iter().filter_map(|retained| {
            let until = retained.until.and_then(|until| numbers[until as usize]);
            numbers[retained.tensor as usize].map(|tensor| Retained { tensor, until })
        });
        graph.set_retention(retained.collect());
        let origins = order.iter().map(|&id| self.origins[id as usize]).collect();
        ScheduledGraph { graph, origins, node_backends: backends(nodes), leaf_backends: backends(leafs) }
    }

    fn add_to(&self, graph: &mut Graph, tensor: Tensor, layout: TensorId) {
        let original = self.placed.graph();
        if original.has_layout(layout) {
            let layout: LayoutRef<'_> = original.layout(layout).by_ref();
            graph.add(tensor, layout);
        } else {
            graph.extend(std::iter::once(tensor));
            graph.defer_layouts(1);
        }
    }

    /// Returns the tensors in the order of their new ids, and the new id of each.
    fn numbered(&self, leafs: &[TensorId], nodes: &[TensorId]) -> (Vec<TensorId>, Vec<Option<TensorId>>) {
        let mut order: Vec<TensorId> = Vec::with_capacity(self.tensors.len());
        let mut numbers = vec![None; self.tensors.len()];
        let number = |id: TensorId, order: &mut Vec<TensorId>, numbers: &mut Vec<Option<TensorId>>| {
            if numbers[id as usize].is_none() {
                numbers[id as usize] = TensorId::try_from(order.len()).ok();
                order.push(id);
            }
        };
        leafs.iter().chain(nodes).for_each(|&id| number(id, &mut order, &mut numbers));
        let mut next = 0;
        while let Some(&id) = order.get(next) {
            self.sources(id).iter().for_each(|&source| number(source, &mut order, &mut numbers));
            number(self.root(id), &mut order, &mut numbers);
            next += 1;
        }
        (order, numbers)
    }
}
