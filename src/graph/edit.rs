//! The editor of graphs: passes, the rules of offload and the trials of explanations change graphs with it.

use std::ops::Range;

use crate::placement::Bytes;

use super::computation::{Graph, id_of};
use super::layouts::Layout;
use super::retention::{Retained, Retention};
use super::tensor::{Tensor, TensorId, View};

/// A graph that is being edited. Tensors of the given graph keep their ids until [`GraphEdit::finish`], and those that are
/// added follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphEdit {
    entries: Vec<Entry>,
    /// The sources of all tensors, at [`Entry::sources`].
    sources: Vec<TensorId>,
    /// The number of tensors of the given graph.
    given: usize,
    /// The leafs.
    pub leafs: Vec<TensorId>,
    /// The nodes in the order of execution.
    pub nodes: Vec<TensorId>,
    /// Which tensors keep their values beyond their last use.
    pub retention: Retention,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    tensor: Tensor,
    /// `None` where that of the given tensor is not known.
    layout: Option<Layout>,
    sources: Range<usize>,
    origin: TensorId,
    /// Whether the given graph only refers to it: it stays, listed or not.
    is_only_referred_to: bool,
}

/// An edited graph, and where its tensors come from.
#[derive(Clone, Debug)]
pub struct Edited {
    /// The graph. Its ids number the leafs, then the nodes in their order, then the others that these refer to.
    pub graph: Graph,
    /// By tensor: the tensor of the given graph that it is, or is made from.
    pub origins: Vec<TensorId>,
    /// By tensor: its id in the editor.
    pub ids: Vec<TensorId>,
    /// The number of tensors of the given graph.
    given: usize,
}

impl Edited {
    /// Returns `true` for a tensor that the given graph does not have.
    pub fn is_new(&self, id: TensorId) -> bool {
        self.ids[id as usize] as usize >= self.given
    }
}

impl GraphEdit {
    /// Begins with a graph.
    pub fn new(graph: &Graph) -> Self {
        let count = graph.tensors().len();
        let mut edit = Self {
            entries: Vec::with_capacity(count),
            sources: Vec::with_capacity(2 * count),
            given: count,
            leafs: graph.leafs().to_vec(),
            nodes: graph.nodes().to_vec(),
            retention: graph.retention().clone(),
        };
        for (id, tensor) in (0..).zip(graph.tensors()) {
            let layout = graph.has_layout(id).then(|| *graph.layout(id));
            edit.push(id, tensor.clone(), layout, graph.sources(id).iter().copied());
        }
        edit.entries.iter_mut().for_each(|entry| entry.is_only_referred_to = true);
        for &id in graph.leafs().iter().chain(graph.nodes()) {
            edit.entries[id as usize].is_only_referred_to = false;
        }
        edit
    }

    /// Adds a tensor that is made from `origin`, a tensor of the given graph, in no list.
    pub fn add(&mut self, origin: TensorId, tensor: Tensor, layout: Layout, sources: &[TensorId]) -> TensorId {
        self.push(origin, tensor, Some(layout), sources.iter().copied())
    }

    /// Adds a copy of a tensor, in no list.
    pub fn copy(&mut self, id: TensorId) -> TensorId {
        let Entry { tensor, layout, sources, origin, .. } = self.entries[id as usize].clone();
        let sources = self.sources[sources].to_vec();
        self.push(origin, tensor, layout, sources.into_iter())
    }

    fn push(
        &mut self,
        origin: TensorId,
        tensor: Tensor,
        layout: Option<Layout>,
        sources: impl Iterator<Item = TensorId>,
    ) -> TensorId {
        let first = self.sources.len();
        self.sources.extend(sources);
        let sources = first..self.sources.len();
        self.entries.push(Entry { tensor, layout, sources, origin, is_only_referred_to: false });
        id_of(self.entries.len() - 1)
    }

    /// Returns the tensor of the given graph that a tensor is, or is made from.
    pub fn origin(&self, id: TensorId) -> TensorId {
        self.entries[id as usize].origin
    }

    /// Returns a tensor.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.entries[id as usize].tensor
    }

    /// Returns a tensor to change.
    pub fn tensor_mut(&mut self, id: TensorId) -> &mut Tensor {
        &mut self.entries[id as usize].tensor
    }

    /// Returns all tensors to change.
    pub fn tensors_mut(&mut self) -> impl Iterator<Item = &mut Tensor> {
        self.entries.iter_mut().map(|entry| &mut entry.tensor)
    }

    /// Returns the layout of a tensor, which is known.
    pub fn layout(&self, id: TensorId) -> &Layout {
        self.entries[id as usize].layout.as_ref().expect("the layout is known")
    }

    /// Replaces the layout of a tensor.
    pub fn set_layout(&mut self, id: TensorId, layout: Layout) {
        self.entries[id as usize].layout = Some(layout);
    }

    /// Replaces the strides of a tensor.
    pub fn set_strides(&mut self, id: TensorId, nb: [Bytes; 4]) {
        self.set_layout(id, Layout { nb, ..*self.layout(id) });
    }

    /// Returns the sources of a tensor, in the order of its slots.
    pub fn sources(&self, id: TensorId) -> &[TensorId] {
        &self.sources[self.entries[id as usize].sources.clone()]
    }

    /// Replaces all sources of a tensor.
    pub fn set_sources(&mut self, id: TensorId, sources: &[TensorId]) {
        let first = self.sources.len();
        self.sources.extend_from_slice(sources);
        self.entries[id as usize].sources = first..self.sources.len();
    }

    /// Adds a source to a tensor, after the others.
    pub fn add_source(&mut self, id: TensorId, source: TensorId) {
        self.set_sources(id, &[self.sources(id), &[source]].concat());
    }

    /// Replaces one source of a tensor.
    pub fn replace_source(&mut self, id: TensorId, position: usize, source: TensorId) {
        self.sources[self.entries[id as usize].sources.clone()][position] = source;
    }

    /// Replaces each tensor that `id` refers to, as a source or as the owner of its memory.
    pub fn refer(&mut self, id: TensorId, to: impl Fn(TensorId) -> TensorId) {
        let Entry { tensor, sources, .. } = &mut self.entries[id as usize];
        tensor.view = tensor.view.map(|view| View { root: to(view.root), ..view });
        self.sources[sources.clone()].iter_mut().for_each(|source| *source = to(*source));
    }

    /// Returns the owner of the memory of a tensor.
    pub fn root(&self, id: TensorId) -> TensorId {
        self.place(id).root
    }

    /// Returns the owner of the memory of a tensor, and where in it the tensor starts.
    pub fn place(&self, id: TensorId) -> View {
        self.tensor(id).view.unwrap_or(View { root: id, offset: 0 })
    }

    /// Removes tensors from the lists.
    pub fn unlist(&mut self, ids: &[TensorId]) {
        let mut is_removed = vec![false; self.entries.len()];
        ids.iter().for_each(|&id| is_removed[id as usize] = true);
        self.leafs.retain(|&id| !is_removed[id as usize]);
        self.nodes.retain(|&id| !is_removed[id as usize]);
    }

    /// Inserts tensors into the nodes right before `node`, in the given order.
    pub fn list_before(&mut self, node: TensorId, ids: &[TensorId]) {
        let at = self.nodes.iter().position(|&other| other == node).unwrap_or(self.nodes.len());
        self.nodes.splice(at..at, ids.iter().copied());
    }

    /// Returns the edited graph. Tensors that were listed or added are removed if they are neither listed nor referred to.
    pub fn finish(self) -> Edited {
        let ids = self.in_new_order();
        let mut numbers: Vec<Option<TensorId>> = vec![None; self.entries.len()];
        (0..).zip(&ids).for_each(|(number, &id)| numbers[id as usize] = Some(number));
        let number = |&id: &TensorId| numbers[id as usize].expect("all that is referred to is numbered");
        let mut graph = Graph::with_capacity(ids.len());
        for &id in &ids {
            let Entry { tensor, layout, .. } = &self.entries[id as usize];
            let view = tensor.view.map(|view| View { root: number(&view.root), ..view });
            let tensor = Tensor { view, ..tensor.clone() };
            match layout {
                Some(layout) => _ = graph.add(tensor, layout.by_ref()),
                None => {
                    graph.extend(std::iter::once(tensor));
                    graph.defer_layouts(1);
                }
            }
            graph.push_sources(self.sources(id).iter().map(number));
        }
        graph.list_leafs(self.leafs.iter().map(number));
        graph.list_nodes(self.nodes.iter().map(number));
        let retained = self.retention.list().iter().filter_map(|retained| {
            let until = retained.until.and_then(|until| numbers[until as usize]);
            numbers[retained.tensor as usize].map(|tensor| Retained { tensor, until })
        });
        graph.set_retention(retained.collect());
        let origins = ids.iter().map(|&id| self.entries[id as usize].origin).collect();
        Edited { graph, origins, ids, given: self.given }
    }

    /// Returns the tensors in the order of their new ids: leafs, nodes, then the others that these refer to.
    fn in_new_order(&self) -> Vec<TensorId> {
        let mut is_known = vec![false; self.entries.len()];
        let mut order = Vec::with_capacity(self.entries.len());
        let mut add = |id: TensorId, order: &mut Vec<TensorId>| {
            if !std::mem::replace(&mut is_known[id as usize], true) {
                order.push(id);
            }
        };
        self.leafs.iter().chain(&self.nodes).for_each(|&id| add(id, &mut order));
        let listed = order.len();
        let others = (0..).zip(&self.entries).filter(|(_, entry)| entry.is_only_referred_to);
        others.for_each(|(id, _)| add(id, &mut order));
        let mut next = 0;
        while let Some(&id) = order.get(next) {
            self.sources(id).iter().for_each(|&source| add(source, &mut order));
            add(self.root(id), &mut order);
            next += 1;
        }
        order[listed..].sort_unstable();
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Flags;

    const LAYOUT: Layout = Layout { element: 0, ne: [4, 1, 1, 1], nb: [4, 16, 16, 16] };

    /// A leaf 0, and nodes 1 (of 0), 2 (a view of 1) and 3 (of 2), of which 1 is retained until 3 has run; 4 is a source of
    /// 1 in no list.
    fn graph() -> Graph {
        let mut graph = Graph::with_capacity(5);
        for id in 0..5 {
            let view = (id == 2).then_some(View { root: 1, offset: 4 });
            graph.add(Tensor { view, ..Tensor::new() }, LAYOUT.by_ref());
        }
        for sources in [&[][..], &[0, 4], &[1], &[2], &[]] {
            graph.push_sources(sources.iter().copied());
        }
        graph.list_leafs([0]);
        graph.list_nodes(1..4);
        graph.set_retention([Retained { tensor: 1, until: Some(3) }].into_iter().collect());
        graph
    }

    #[test]
    fn graph_without_changes_is_the_given_one() {
        let Edited { graph: edited, origins, .. } = GraphEdit::new(&graph()).finish();
        assert_eq!((edited, origins), (graph(), vec![0, 1, 2, 3, 4]));
    }

    #[test]
    fn tensors_are_numbered_anew_with_all_that_refers_to_them() {
        let mut edit = GraphEdit::new(&graph());
        let copy = edit.copy(1);
        edit.tensor_mut(copy).flags = Flags::COMPUTE;
        edit.list_before(1, &[copy]);
        edit.refer(3, |id| if id == 2 { copy } else { id });
        let edited = edit.finish();
        assert_eq!(
            (edited.origins.as_slice(), edited.ids.as_slice()),
            (&[0, 1, 1, 2, 3, 4][..], &[0, 5, 1, 2, 3, 4][..])
        );
        let new: Vec<TensorId> = (0..6).filter(|&id| edited.is_new(id)).collect();
        let Edited { graph, .. } = edited;
        assert_eq!((new.as_slice(), graph.leafs(), graph.nodes()), (&[1][..], &[0][..], &[1, 2, 3, 4][..]));
        assert_eq!((graph.sources(1), graph.sources(2), graph.sources(4)), (&[0, 5][..], &[0, 5][..], &[1][..]));
        assert_eq!(graph.tensor(3).view, Some(View { root: 2, offset: 4 }));
        assert_eq!(graph.retention().list(), [Retained { tensor: 2, until: Some(4) }]);
    }

    #[test]
    fn tensors_that_are_no_longer_listed_stay_as_long_as_others_refer_to_them() {
        let mut edit = GraphEdit::new(&graph());
        edit.unlist(&[0, 2]);
        let edited = edit.clone().finish();
        assert_eq!((edited.origins.as_slice(), edited.graph.nodes()), (&[1, 3, 0, 2, 4][..], &[0, 1][..]));
        edit.unlist(&[1, 3]);
        let edited = edit.finish();
        assert_eq!(edited.origins, [4], "the given graph has never listed it");
        assert!(edited.graph.retention().is_empty());
    }
}
