//! The graph in which nodes run again.

use crate::graph::{BufferIndex, Graph, Requests, Retained, TensorId, View};
use crate::placement::Step;

use super::schedule::Item;

/// A graph in a new order, with copies of the nodes that run again.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// The graph. Its ids count the leafs, then the nodes in their order, then the others.
    pub graph: Graph,
    /// By tensor: its id in the given graph, or that of the tensor that it computes again.
    pub origins: Vec<TensorId>,
    /// By tensor: whether it is computed again.
    pub again: Vec<bool>,
    /// The requested buffer of each node; a copy has that of the node that it computes again.
    pub node_buffers: Vec<BufferIndex>,
}

impl Rebuilt {
    /// Rebuilds `graph`, whose nodes are distinct. Nodes from step `boundary` on, and those that run again, use the
    /// copy of a source that has one, and views of it are views of the copy.
    pub fn new(graph: &Graph, requests: Requests<'_>, items: &[Item], boundary: Step) -> Self {
        Builder::new(graph, items, boundary).build(requests)
    }
}

struct Builder<'a> {
    graph: &'a Graph,
    items: &'a [Item],
    boundary: Step,
    /// By given tensor: its new id.
    new_ids: Vec<Option<TensorId>>,
    /// By given tensor: the new id of its copy.
    copies: Vec<Option<TensorId>>,
    /// By new tensor: the given tensor, and whether it uses copies and is one.
    origins: Vec<Origin>,
}

#[derive(Clone, Copy)]
struct Origin {
    id: TensorId,
    is_late: bool,
    again: bool,
}

impl<'a> Builder<'a> {
    fn new(graph: &'a Graph, items: &'a [Item], boundary: Step) -> Self {
        let count = graph.tensors().len();
        Self {
            graph,
            items,
            boundary,
            new_ids: vec![None; count],
            copies: vec![None; count],
            origins: Vec::with_capacity(count),
        }
    }

    fn build(mut self, requests: Requests<'_>) -> Rebuilt {
        self.number();
        let mut graph = Graph::with_capacity(self.origins.len());
        for &origin in &self.origins {
            let mut tensor = self.graph.tensor(origin.id).clone();
            tensor.view = tensor.view.map(|view| View { root: self.new_id(view.root, origin), ..view });
            graph.add(tensor, self.graph.layout(origin.id).by_ref());
            graph.push_sources(self.graph.sources(origin.id).iter().map(|&source| self.new_id(source, origin)));
        }
        let leafs = self.graph.leafs().len();
        let nodes = self.items.len();
        let id = |count: usize| TensorId::try_from(count).expect("fewer than 2^32 tensors");
        graph.list_leafs(self.graph.leafs().iter().filter_map(|&leaf| self.new_ids[leaf as usize]));
        graph.list_nodes(id(leafs)..id(leafs + nodes));
        let new_id = |id: TensorId| self.new_ids[id as usize].expect("all tensors are numbered");
        let retained = self.graph.retention().list().iter();
        let retained =
            retained.map(|&Retained { tensor, until }| Retained { tensor: new_id(tensor), until: until.map(new_id) });
        graph.set_retention(retained.collect());
        Rebuilt {
            graph,
            origins: self.origins.iter().map(|origin| origin.id).collect(),
            again: self.origins.iter().map(|origin| origin.again).collect(),
            node_buffers: self.items.iter().map(|item| requests.nodes[item.step as usize]).collect(),
        }
    }

    /// Numbers the new tensors.
    fn number(&mut self) {
        self.graph.leafs().iter().for_each(|&leaf| self.add(leaf, false, false));
        for &Item { step, again } in self.items {
            self.add(self.graph.nodes()[step as usize], again || step >= self.boundary, again);
        }
        let count = TensorId::try_from(self.graph.tensors().len()).expect("fewer than 2^32 tensors");
        let others: Vec<TensorId> = (0..count).filter(|&id| self.new_ids[id as usize].is_none()).collect();
        others.into_iter().for_each(|id| self.add(id, false, false));
    }

    fn add(&mut self, id: TensorId, is_late: bool, again: bool) {
        let new = TensorId::try_from(self.origins.len()).expect("fewer than 2^32 tensors");
        let ids = if again { &mut self.copies } else { &mut self.new_ids };
        if ids[id as usize].replace(new).is_none() {
            self.origins.push(Origin { id, is_late, again });
        }
    }

    /// Returns the new id of a tensor that `user` refers to.
    fn new_id(&self, id: TensorId, user: Origin) -> TensorId {
        let refers_to_itself = id == user.id && !user.again;
        let copy = self.copies[id as usize].filter(|_| user.is_late && !refers_to_itself);
        copy.or(self.new_ids[id as usize]).expect("all tensors are numbered")
    }
}
