//! The graph as the allocator receives it, where everything is, and the draft that becomes it.

use std::ops::Range;

use crate::graph::{BufferIndex, Flags, Graph, GraphEdit, Op, Tensor, TensorId};
use crate::placement::Step;

use super::backends::{BackendIndex, Backends, BufferTypeIndex};
use super::placed_graph::PlacedGraph;

/// Where a tensor of a scheduled graph comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A tensor of the graph that was scheduled.
    Tensor(TensorId),
    /// A copy of a tensor for the splits of a backend.
    Copy {
        /// The tensor.
        of: TensorId,
        /// The backend.
        backend: BackendIndex,
        /// Which of several copies for pipelines, from 0.
        number: u32,
    },
    /// A control dependency that keeps a tensor live.
    Marker {
        /// The tensor; if there are several, the first.
        of: TensorId,
    },
    /// The result of a node where it is computed, before it is copied to where it resides.
    Staged {
        /// The node.
        of: TensorId,
    },
}

/// A graph with the copies that run between backends: node list and leaf list as the allocator receives them.
#[derive(Clone, Debug)]
pub struct ScheduledGraph {
    /// The graph. Ids number the leafs first, then the nodes, then the tensors that are only referred to.
    pub graph: Graph,
    /// By tensor.
    pub origins: Vec<Origin>,
    /// By position in the node list, the backend whose buffer is requested.
    pub node_backends: Vec<BackendIndex>,
    /// By position in the leaf list. Leafs that have memory and that no operation uses get the host.
    pub leaf_backends: Vec<BackendIndex>,
}

impl ScheduledGraph {
    /// Returns the requested compute buffers of the leafs and of the nodes, see [`Backends::compute_buffers`].
    pub fn requested_buffers(&self, backends: &Backends) -> (Vec<BufferIndex>, Vec<BufferIndex>) {
        let buffers = backends.compute_buffers();
        let of = |list: &[BackendIndex]| list.iter().map(|&backend| buffers[backend as usize]).collect();
        (of(&self.leaf_backends), of(&self.node_backends))
    }
}

/// Consecutive nodes that run on one backend, after their inputs were copied to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The backend.
    pub backend: BackendIndex,
    /// Its steps in the scheduled graph: markers and copies of its inputs, then its nodes.
    pub steps: Range<Step>,
    /// The tensors that are copied to the backend before the split runs.
    pub inputs: Vec<TensorId>,
}

/// Where each tensor of a graph is, by one of the rules.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// By tensor, the backend that runs it; for tensors that are not computed, the backend that they belong to. `None`
    /// where no operation asks for one.
    pub executes: Vec<Option<BackendIndex>>,
    /// By tensor, the backend in whose memory it stays.
    pub resides: Vec<Option<BackendIndex>>,
    /// The splits, in the order of execution.
    pub splits: Vec<Split>,
    /// The graph that is allocated.
    pub scheduled: ScheduledGraph,
}

impl Schedule {
    /// Returns the number of tensors that are copied between backends.
    pub fn copied_inputs(&self) -> usize {
        self.splits.iter().map(|split| split.inputs.len()).sum()
    }
}

/// A graph that is being scheduled.
#[derive(Debug)]
pub struct Draft<'a> {
    pub placed: PlacedGraph<'a>,
    pub edit: GraphEdit,
    /// By tensor of the edit.
    origins: Vec<Origin>,
    /// By tensor, the backend that runs it.
    pub executes: Vec<Option<BackendIndex>>,
    /// By tensor, the backend in whose memory its result is.
    pub resides: Vec<Option<BackendIndex>>,
}

impl<'a> Draft<'a> {
    /// Begins with a graph and no backends.
    pub fn new(placed: PlacedGraph<'a>) -> Self {
        let count = placed.memory.len();
        let mut edit = GraphEdit::new(placed.graph());
        for (tensor, memory) in edit.tensors_mut().zip(placed.memory) {
            tensor.external |= memory.is_some() && tensor.view.is_none();
        }
        let origins = (0..).take(count).map(Origin::Tensor).collect();
        Self { placed, edit, origins, executes: vec![None; count], resides: vec![None; count] }
    }

    /// Returns `true` for operations that make a view: the scheduler passes over them.
    pub fn is_view_operation(&self, id: TensorId) -> bool {
        self.edit.tensor(id).op.is_view()
    }

    /// Returns `true` if a tensor is in a buffer of weights.
    pub fn is_weight(&self, id: TensorId) -> bool {
        (id as usize) < self.placed.memory.len() && self.placed.is_weight(id)
    }

    /// Returns the type of the buffer that a tensor is in, or will be in as far as backends are known.
    pub fn buffer_type(&self, id: TensorId, backends: &Backends) -> Option<BufferTypeIndex> {
        let root = self.edit.root(id);
        let memory = self.placed.memory.get(root as usize).copied().flatten();
        let assigned = || self.resides[id as usize].or(self.resides[root as usize]);
        memory.map(|memory| memory.buffer_type).or_else(|| assigned().map(|backend| backends.buffer_type(backend)))
    }

    /// Adds a tensor without operation that has the layout of `of`, on `backend`.
    pub fn add_copy(&mut self, of: TensorId, backend: BackendIndex, number: u32) -> TensorId {
        self.add(Origin::Copy { of, backend, number }, of, Tensor::new(), &[], backend)
    }

    /// Adds a marker, which keeps `kept` live: a view of the first.
    pub fn add_marker(&mut self, kept: &[TensorId], backend: BackendIndex) -> TensorId {
        let of = kept[0];
        let view = Some(self.edit.place(of));
        let origin = Origin::Marker { of: self.edit.origin(of) };
        self.add(origin, of, Tensor { view, ..Tensor::new() }, kept, backend)
    }

    /// Moves the operation of `node` to a new tensor on `backend`. The node has no operation then: it is where the
    /// result of the new tensor is copied to.
    pub fn stage(&mut self, node: TensorId, backend: BackendIndex) -> TensorId {
        let given = self.edit.tensor(node).clone();
        let computed = Tensor { flags: Flags(given.flags.0 & Flags::COMPUTE.0), view: None, external: false, ..given };
        let sources = self.edit.sources(node).to_vec();
        let staged = self.add(Origin::Staged { of: node }, node, computed, &sources, backend);
        self.edit.tensor_mut(node).set_op(Op::None);
        self.edit.set_sources(node, &[]);
        staged
    }

    /// Adds a copy of `like` with another tensor and sources.
    fn add(
        &mut self,
        origin: Origin,
        like: TensorId,
        tensor: Tensor,
        sources: &[TensorId],
        backend: BackendIndex,
    ) -> TensorId {
        let id = self.edit.copy(like);
        *self.edit.tensor_mut(id) = tensor;
        self.edit.set_sources(id, sources);
        self.origins.push(origin);
        self.executes.push(Some(backend));
        self.resides.push(Some(backend));
        id
    }

    /// Returns the graph with these lists, and for each of its tensors where it comes from. Its ids are those that the
    /// allocator gives.
    pub fn finish(mut self, leafs: &[(TensorId, BackendIndex)], nodes: &[(TensorId, BackendIndex)]) -> ScheduledGraph {
        let backends = |list: &[(TensorId, BackendIndex)]| list.iter().map(|&(_, backend)| backend).collect();
        self.edit.leafs = leafs.iter().map(|&(id, _)| id).collect();
        self.edit.nodes = nodes.iter().map(|&(id, _)| id).collect();
        let edited = self.edit.finish();
        let origins = edited.ids.iter().map(|&id| self.origins[id as usize]).collect();
        ScheduledGraph { graph: edited.graph, origins, node_backends: backends(nodes), leaf_backends: backends(leafs) }
    }
}
