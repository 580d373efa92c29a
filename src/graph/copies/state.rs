//! The graph with the changes so far.

use crate::graph::{Graph, GraphEdit, Layout, Region, TensorId, View};
use crate::placement::{Bytes, Step};

use super::element_order::reach;
use super::facts::{Facts, Storage};

/// A graph with changes, which are kept separately.
pub struct CopyState<'a> {
    /// The graph as given.
    pub graph: &'a Graph,
    /// Facts besides the graph.
    pub facts: Facts<'a>,
    /// By tensor: the step that computes it.
    pub steps: Vec<Option<Step>>,
    /// By tensor: its uses as a source of other nodes.
    pub uses: Vec<u32>,
    /// By tensor: the number of its views.
    pub views: Vec<u32>,
    /// By tensor: whether it is a leaf.
    pub is_leaf: Vec<bool>,
    /// By tensor: the tensor that represents its memory.
    memory: Vec<TensorId>,
    /// The graph with the changes so far. Views may be of tensors that have become views themselves.
    pub edit: GraphEdit,
}

impl<'a> CopyState<'a> {
    /// Creates the state without changes. `None` if a tensor is listed twice: such a graph computes it twice.
    pub fn new(graph: &'a Graph, facts: Facts<'a>) -> Option<Self> {
        let count = graph.tensors().len();
        let mut state = Self {
            graph,
            facts,
            steps: vec![None; count],
            uses: vec![0; count],
            views: vec![0; count],
            is_leaf: vec![false; count],
            memory: facts.same_memory.to_vec(),
            edit: GraphEdit::new(graph),
        };
        for &leaf in graph.leafs() {
            state.is_leaf[leaf as usize] = true;
        }
        for (step, &node) in (0..).zip(graph.nodes()) {
            if state.steps[node as usize].replace(step).is_some() || state.is_leaf[node as usize] {
                return None;
            }
            for &source in graph.sources(node).iter().filter(|&&source| source != node) {
                state.uses[source as usize] += 1;
            }
        }
        for view in graph.tensors().iter().filter_map(|tensor| tensor.view) {
            state.views[view.root as usize] += 1;
        }
        Some(state)
    }

    /// Returns `true` if a copy has become memory that other nodes write.
    pub fn is_placeholder(&self, id: TensorId) -> bool {
        self.edit.tensor(id).is_marker() && !self.graph.tensor(id).is_marker()
    }

    /// Returns the owner of the memory of a tensor, and where in it the tensor starts.
    pub fn place(&self, id: TensorId) -> View {
        let mut place = View { root: id, offset: 0 };
        while let Some(view) = self.edit.tensor(place.root).view {
            place = View { root: view.root, offset: place.offset + view.offset };
        }
        place
    }

    /// Returns the tensor that represents the memory of a root.
    pub fn memory(&self, root: TensorId) -> TensorId {
        self.memory[root as usize]
    }

    /// Returns the bytes of elements with this layout at this place.
    pub fn region_at(&self, place: View, layout: &Layout) -> Region {
        let start = match self.facts.memory[place.root as usize] {
            Storage::Planned => 0,
            Storage::Context { start } | Storage::Buffer { start, .. } => start,
        };
        let start: Bytes = start.saturating_add(place.offset);
        Region { space: self.memory(place.root), start, end: start.saturating_add(reach(layout)) }
    }

    /// Returns the bytes of a tensor.
    pub fn region(&self, id: TensorId) -> Region {
        self.region_at(self.place(id), self.edit.layout(id))
    }

    /// Replaces the memory of `new` by that of `old`, byte for byte.
    pub fn move_memory(&mut self, old: TensorId, new: TensorId) {
        self.memory[new as usize] = self.memory[old as usize];
    }

    /// Returns the edit. Views of tensors that have become views themselves become views of their root.
    pub fn finish(mut self) -> GraphEdit {
        for id in (0..).take(self.graph.tensors().len()) {
            let place = self.place(id);
            if let Some(view) = self.edit.tensor_mut(id).view.as_mut().filter(|view| view.root != place.root) {
                *view = place;
            }
        }
        self.edit
    }
}
