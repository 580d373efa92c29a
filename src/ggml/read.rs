//! From a live graph to plain data: pointers become dense ids, once.

use std::borrow::Cow;

use crate::graph::{Flags, Graph, Layout, PoolId, Tensor, View};
use crate::placement::Bytes;

use super::buffers::BufferType;
use super::context::GrowingContexts;
use super::fingerprint::Fingerprint;
use super::ids::Ids;
use super::runtime::Runtime;
use super::tensor::{GraphRef, TensorRef};

/// A live graph and the same as plain data.
#[derive(Debug)]
pub struct Reading<'g> {
    /// Leafs first, then nodes, then what is only referred to.
    pub graph: Graph,
    /// By id.
    pub tensors: Vec<TensorRef<'g>>,
    /// How many tensors are leafs or nodes: the others, with larger ids, are only referred to.
    pub listed: usize,
    /// Does every tensor refer only to such with smaller ids, or itself, and to none that is in no list?
    pub is_in_order: bool,
    /// The graph as it is recognized.
    pub fingerprint: Fingerprint,
    /// By id, of tensors that need memory: what the pool wanted for it takes.
    pub sizes: Vec<Option<Bytes>>,
}

/// The pools that are wanted for leafs and nodes; both empty where there is one pool only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requested {
    /// By leaf.
    pub leafs: Vec<PoolId>,
    /// By node.
    pub nodes: Vec<PoolId>,
}

impl Requested {
    /// The same with a pool for every leaf and node of `graph`.
    pub fn of_all(&self, graph: &Graph) -> Cow<'_, Self> {
        if !self.leafs.is_empty() || !self.nodes.is_empty() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self { leafs: vec![0; graph.leafs().len()], nodes: vec![0; graph.nodes().len()] })
    }

    /// The pool wanted for a tensor, by its position among leafs and nodes.
    pub fn pool(&self, position: usize) -> PoolId {
        let pool = self.leafs.get(position).or_else(|| self.nodes.get(position.checked_sub(self.leafs.len())?));
        pool.copied().unwrap_or(0)
    }
}

/// Reads the lists of `graph` and whatever they refer to. Looks at each tensor once, sizes included: large graphs do not
/// stay in the caches of a processor.
pub fn read<'g>(runtime: &Runtime, types: &[BufferType], graph: GraphRef<'g>, requested: &Requested) -> Reading<'g> {
    let count = graph.leafs.len() + graph.nodes.len();
    let mut ids = Ids::with_capacity(count);
    let mut plain = Graph::with_capacity(count);
    graph.leafs.iter().for_each(|&leaf| plain.push_leaf(ids.id(leaf)));
    graph.nodes.iter().for_each(|&node| plain.push_node(ids.id(node)));
    let listed = ids.len();
    let mut fingerprint = Fingerprint::new(graph);
    let contexts = GrowingContexts::now();
    let mut sizes = Vec::with_capacity(count);
    // Reading a tensor can add what it refers to, which is then read in its turn.
    let mut next = 0;
    let mut is_in_order = true;
    while let Some(tensor) = ids.get(next) {
        let mut described = describe(runtime, tensor, &mut ids);
        described.external |= contexts.will_give(tensor);
        let is_owned = described.is_owned();
        let id = plain.add(described, layout(tensor));
        if next < listed {
            plain.set_sources(id, tensor.sources().map(|source| ids.id(source)));
            let add = if next < graph.leafs.len() { Fingerprint::add_leaf } else { Fingerprint::add };
            add(&mut fingerprint, tensor);
        }
        // Positions are ids unless a tensor is listed twice.
        let pool = (is_owned && next < listed && listed == count).then(|| requested.pool(next));
        sizes.push(pool.and_then(|pool| Some(types.get(pool as usize)?.alloc_size(tensor))));
        is_in_order &= plain.sources(id).iter().all(|&source| source <= id) && plain.root(id) <= id;
        next += 1;
    }
    let tensors = ids.into_tensors();
    let is_in_order = is_in_order && tensors.len() == listed;
    Reading { graph: plain, listed, is_in_order, tensors, fingerprint, sizes }
}

fn describe<'g>(runtime: &Runtime, tensor: TensorRef<'g>, ids: &mut Ids<'g>) -> Tensor {
    let root = tensor.view_source();
    let mut plain = Tensor::new();
    plain.flags = Flags(tensor.flags());
    plain.view = root.map(|root| View { root: ids.id(root), offset: tensor.view_offset() as u64 });
    plain.operation = runtime.operations.operation(tensor.op());
    plain.external = root.is_none() && tensor.has_memory();
    plain
}

/// What two tensors must share for one to be computed in the other's place.
pub fn layout(tensor: TensorRef<'_>) -> Layout {
    Layout { element: tensor.element(), ne: tensor.ne(), nb: tensor.nb().map(|stride| stride as u64) }
}
