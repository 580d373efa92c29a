//! From a live graph to plain data: pointers become dense ids, once.

use std::borrow::Cow;

use crate::graph::{Flags, Graph, PoolId, Tensor, TensorId, View};
use crate::placement::Bytes;

use super::buffers::BufferType;
use super::context::GrowingContexts;
use super::fingerprint::Fingerprint;
use super::ids::Ids;
use super::redirect::redirected_to;
use super::runtime::Runtime;
use super::sizes::KnownSizes;
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
    /// Is a result redirected?
    pub is_redirecting: bool,
    /// The graph as it is recognized.
    pub fingerprint: Fingerprint,
    /// What was found out of the sizes of the tensors.
    pub sizes: KnownSizes,
}

/// The pools that are wanted for leafs and nodes; both empty where there is one pool only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Requested {
    /// By leaf.
    pub leafs: Vec<PoolId>,
    /// By node.
    pub nodes: Vec<PoolId>,
}

impl Reading<'_> {
    /// Bytes that `types[pool]` wants for a tensor, where `requested` is what the graph was read with.
    pub fn alloc_size(&self, types: &[BufferType], requested: &Requested, tensor: TensorId, pool: PoolId) -> Bytes {
        let buffer_type = types[pool as usize];
        let known = if buffer_type.goes_by_layout() {
            self.sizes.of_layout(self.graph.layout_id(tensor))
        } else if requested.pool(tensor as usize) == pool {
            self.sizes.of_tensor(tensor)
        } else {
            None
        };
        let ask = || buffer_type.alloc_size(self.tensors[tensor as usize]);
        debug_assert!(!buffer_type.goes_by_layout() || known.is_none_or(|known| known == ask()));
        known.unwrap_or_else(ask)
    }
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

/// How many tensors are looked at together: few enough to stay in the nearest cache of a processor, and that it fetches the
/// next ones while it still works on the last.
const TOGETHER: usize = 8;

/// Reads the lists of `graph` and whatever they refer to, sizes included. Large graphs do not stay in the caches of a
/// processor, so all that is to be known of some tensors is found out before the next ones are looked at.
pub fn read<'g>(runtime: &Runtime, types: &[BufferType], graph: GraphRef<'g>, requested: &Requested) -> Reading<'g> {
    let mut reader = Reader::new(runtime, types, graph, requested);
    let listed = reader.ids.tensors().to_vec();
    let (leafs, nodes) = listed.split_at(graph.leafs.len().min(listed.len()));
    leafs.chunks(TOGETHER).for_each(|leafs| reader.read_leafs(leafs));
    nodes.chunks(TOGETHER).for_each(|nodes| reader.read_nodes(nodes));
    // Describing a tensor can add the one that it is a view of, which is then described in its turn.
    let mut next = listed.len();
    while let Some(&tensor) = reader.ids.tensors().get(next) {
        reader.describe(&[tensor]);
        reader.sizes.add_layouts(runtime, &reader.plain, &[tensor]);
        next += 1;
    }
    let Reader { ids, plain, is_redirecting, fingerprint, sizes, .. } = reader;
    Reading { graph: plain, listed: listed.len(), tensors: ids.into_tensors(), is_redirecting, fingerprint, sizes }
}

struct Reader<'a, 'g> {
    runtime: &'a Runtime,
    types: &'a [BufferType],
    requested: &'a Requested,
    contexts: GrowingContexts,
    ids: Ids<'g>,
    plain: Graph,
    is_redirecting: bool,
    fingerprint: Fingerprint,
    sizes: KnownSizes,
}

impl<'a, 'g> Reader<'a, 'g> {
    fn new(runtime: &'a Runtime, types: &'a [BufferType], graph: GraphRef<'g>, requested: &'a Requested) -> Self {
        let lists = [graph.leafs, graph.nodes].concat();
        let count = lists.len();
        let mut ids = Ids::of(lists);
        let mut plain = Graph::with_capacity(count);
        // Positions are ids unless a tensor is listed twice.
        let has_positions = ids.tensors().len() == count;
        if has_positions {
            let (leafs, all) = (id_of(graph.leafs.len()), id_of(count));
            plain.list_leafs(0..leafs);
            plain.list_nodes(leafs..all);
        } else {
            plain.list_leafs(graph.leafs.iter().map(|&leaf| ids.id(leaf)));
            plain.list_nodes(graph.nodes.iter().map(|&node| ids.id(node)));
        }
        let fingerprint = Fingerprint::new(graph);
        let sizes = KnownSizes::new(types, if has_positions { count } else { 0 });
        let contexts = GrowingContexts::now();
        Self { runtime, types, requested, contexts, ids, plain, is_redirecting: false, fingerprint, sizes }
    }

    fn read_leafs(&mut self, leafs: &[TensorRef<'g>]) {
        let constants = leafs.iter().filter(|leaf| self.fingerprint.add_leaf(**leaf)).count();
        // Most are weights.
        if constants == leafs.len() {
            self.describe_constants(leafs);
        } else {
            self.read_others(leafs);
        }
    }

    fn read_nodes(&mut self, nodes: &[TensorRef<'g>]) {
        nodes.iter().for_each(|&node| self.fingerprint.add(node));
        self.read_others(nodes);
    }

    /// Finds out all but the fingerprint. In loops of their own, which a processor goes through faster.
    fn read_others(&mut self, tensors: &[TensorRef<'g>]) {
        self.connect(tensors);
        self.describe(tensors);
        self.measure(tensors);
    }

    /// Finds out whom the next tensors read.
    fn connect(&mut self, tensors: &[TensorRef<'g>]) {
        let Self { ids, plain, is_redirecting, .. } = self;
        for tensor in tensors {
            *is_redirecting |= redirected_to(*tensor).is_some();
            plain.push_sources(tensor.sources().map(|source| ids.id(source)));
        }
    }

    /// Adds the next tensors.
    fn describe(&mut self, tensors: &[TensorRef<'g>]) {
        let Self { runtime, contexts, ids, plain, .. } = self;
        let describe = |&tensor: &TensorRef<'g>| {
            let root = tensor.view_source();
            let view = root.map(|root| View { root: ids.id(root), offset: tensor.view_offset() as u64 });
            let external = root.is_none() && tensor.has_memory() || contexts.will_give(tensor);
            let operation = runtime.operations.operation(tensor.op());
            Tensor { flags: Flags(tensor.flags()), view, operation, external }
        };
        plain.extend(tensors.iter().map(describe), tensors.iter().map(|tensor| tensor.layout()));
    }

    /// Adds tensors that came with memory and refer to nobody.
    fn describe_constants(&mut self, tensors: &[TensorRef<'g>]) {
        let describe = |tensor: &TensorRef<'g>| {
            let operation = self.runtime.operations.operation(tensor.op());
            Tensor { flags: Flags(tensor.flags()), view: None, operation, external: true }
        };
        tensors.iter().for_each(|_| self.plain.push_sources(std::iter::empty()));
        self.plain.extend(tensors.iter().map(describe), tensors.iter().map(|tensor| tensor.layout()));
        self.measure(tensors);
    }

    /// Finds out the sizes of the latest tensors.
    fn measure(&mut self, tensors: &[TensorRef<'_>]) {
        let Self { runtime, types, requested, plain, sizes, .. } = self;
        sizes.add_layouts(runtime, plain, tensors);
        sizes.add_tensors(types, requested, plain, tensors);
    }
}

/// The id that is an index.
pub fn id_of(index: usize) -> TensorId {
    TensorId::try_from(index).expect("fewer than 2^32 tensors")
}
