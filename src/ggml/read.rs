//! From a live graph to plain data: pointers become dense ids, once.

use crate::graph::{Flags, Graph, Layout, Tensor, View};

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
}

/// Reads the lists of `graph` and whatever they refer to.
pub fn read<'g>(runtime: &Runtime, graph: GraphRef<'g>) -> Reading<'g> {
    let count = graph.leafs.len() + graph.nodes.len();
    let mut ids = Ids::with_capacity(count);
    let mut plain = Graph::with_capacity(count);
    graph.leafs.iter().for_each(|&leaf| plain.push_leaf(ids.id(leaf)));
    graph.nodes.iter().for_each(|&node| plain.push_node(ids.id(node)));
    let listed = ids.len();
    // Reading a tensor can add what it refers to, which is then read in its turn.
    let mut next = 0;
    while let Some(tensor) = ids.get(next) {
        let id = plain.add(describe(runtime, tensor, &mut ids));
        if next < listed {
            plain.set_sources(id, tensor.sources().flatten().map(|source| ids.id(source)));
        }
        next += 1;
    }
    Reading { graph: plain, tensors: ids.into_tensors(), listed }
}

fn describe<'g>(runtime: &Runtime, tensor: TensorRef<'g>, ids: &mut Ids<'g>) -> Tensor {
    let (op, root) = (tensor.op(), tensor.view_source());
    let mut plain = Tensor::new(layout(tensor));
    plain.flags = Flags(tensor.flags());
    plain.view = root.map(|root| View { root: ids.id(root), offset: tensor.view_offset() as u64 });
    plain.can_run_in_place = runtime.operations.can_run_in_place(op);
    plain.is_none = runtime.operations.is_none(op);
    plain.external = root.is_none() && tensor.has_memory();
    plain
}

/// What two tensors must share for one to be computed in the other's place.
pub fn layout(tensor: TensorRef<'_>) -> Layout {
    Layout { element: tensor.element(), ne: tensor.ne(), nb: tensor.nb().map(|stride| stride as u64) }
}
