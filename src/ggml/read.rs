//! From a live graph to plain data: pointers become dense ids, once.

use rustc_hash::FxHashMap;

use crate::graph::{Flags, Graph, Layout, Tensor, TensorId, View};

use super::runtime::Runtime;
use super::tensor::{GraphRef, TensorRef};

/// A live graph and the same as plain data.
#[derive(Debug)]
pub struct Reading<'g> {
    /// Leafs first, then nodes, then what is only referred to.
    pub graph: Graph,
    /// By id.
    pub tensors: Vec<TensorRef<'g>>,
}

/// Reads the lists of `graph` and whatever they refer to.
pub fn read<'g>(runtime: &Runtime, graph: GraphRef<'g>) -> Reading<'g> {
    let listed = graph.leafs.len() + graph.nodes.len();
    let mut reader = Reader {
        runtime,
        ids: FxHashMap::with_capacity_and_hasher(listed + listed / 4, rustc_hash::FxBuildHasher),
        graph: Graph::with_capacity(listed),
        tensors: Vec::with_capacity(listed),
    };
    for &leaf in graph.leafs {
        let id = reader.id(leaf);
        reader.graph.push_leaf(id);
    }
    for &node in graph.nodes {
        let id = reader.id(node);
        reader.graph.push_node(id);
    }
    for &node in graph.nodes {
        reader.read_sources(node);
    }
    let mut next = 0;
    while let Some(&tensor) = reader.tensors.get(next) {
        reader.read_view(tensor);
        next += 1;
    }
    Reading { graph: reader.graph, tensors: reader.tensors }
}

struct Reader<'r, 'g> {
    runtime: &'r Runtime,
    ids: FxHashMap<TensorRef<'g>, TensorId>,
    graph: Graph,
    tensors: Vec<TensorRef<'g>>,
}

impl<'g> Reader<'_, 'g> {
    fn id(&mut self, tensor: TensorRef<'g>) -> TensorId {
        *self.ids.entry(tensor).or_insert_with(|| {
            self.tensors.push(tensor);
            self.graph.add(describe(self.runtime, tensor))
        })
    }

    fn read_sources(&mut self, node: TensorRef<'g>) {
        let mut sources = [0; super::fit::MAX_SOURCES];
        let mut count = 0;
        for source in node.sources().flatten() {
            sources[count] = self.id(source);
            count += 1;
        }
        let id = self.id(node);
        self.graph.set_sources(id, sources.into_iter().take(count));
    }

    fn read_view(&mut self, tensor: TensorRef<'g>) {
        if let Some(root) = tensor.view_source() {
            let view = View { root: self.id(root), offset: tensor.view_offset() as u64 };
            let id = self.id(tensor);
            self.graph.set_view(id, view);
        }
    }
}

fn describe(runtime: &Runtime, tensor: TensorRef<'_>) -> Tensor {
    let op = tensor.op();
    let mut plain = Tensor::new(layout(tensor));
    plain.flags = Flags(tensor.flags());
    plain.can_run_in_place = runtime.operations.can_run_in_place(op);
    plain.is_none = runtime.operations.is_none(op);
    plain.external = tensor.view_source().is_none() && tensor.has_memory();
    plain
}

/// What two tensors must share for one to be computed in the other's place.
pub fn layout(tensor: TensorRef<'_>) -> Layout {
    Layout { element: tensor.element(), ne: tensor.ne(), nb: tensor.nb().map(|stride| stride as u64) }
}
