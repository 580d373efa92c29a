//! The graph with the changes so far.

use crate::graph::{Graph, Layout, Region, TensorId, View};
use crate::placement::{Bytes, Step};

use super::changes::{Becomes, TensorChange};
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
    /// By tensor: the position plus one of its change; 0 where there is none.
    change_of: Vec<u32>,
    changes: Vec<TensorChange>,
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
            change_of: vec![0; count],
            changes: Vec::new(),
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

    /// Returns the change of a tensor, if any.
    pub fn change(&self, id: TensorId) -> Option<&TensorChange> {
        self.changes.get((self.change_of[id as usize] as usize).checked_sub(1)?)
    }

    /// Returns the change of a tensor, to be filled in; a new one changes nothing.
    pub fn change_mut(&mut self, id: TensorId) -> &mut TensorChange {
        if self.change_of[id as usize] == 0 {
            let (view, nb) = (self.graph.tensor(id).view, self.graph.layout(id).nb);
            self.changes.push(TensorChange {
                tensor: id,
                view,
                nb,
                becomes: Becomes::Same,
                destination: None,
                is_output: false,
            });
            self.change_of[id as usize] = u32::try_from(self.changes.len()).expect("fewer than 2^32 tensors");
        }
        &mut self.changes[self.change_of[id as usize] as usize - 1]
    }

    fn view(&self, id: TensorId) -> Option<View> {
        self.change(id).map_or(self.graph.tensor(id).view, |change| change.view)
    }

    /// Returns the owner of the memory of a tensor, and where in it the tensor starts.
    pub fn place(&self, id: TensorId) -> View {
        let mut place = View { root: id, offset: 0 };
        while let Some(view) = self.view(place.root) {
            place = View { root: view.root, offset: place.offset + view.offset };
        }
        place
    }

    /// Returns the layout of a tensor.
    pub fn layout(&self, id: TensorId) -> Layout {
        let layout = *self.graph.layout(id);
        self.change(id).map_or(layout, |change| Layout { nb: change.nb, ..layout })
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
        self.region_at(self.place(id), &self.layout(id))
    }

    /// Replaces the memory of `new` by that of `old`, byte for byte.
    pub fn move_memory(&mut self, old: TensorId, new: TensorId) {
        self.memory[new as usize] = self.memory[old as usize];
    }

    /// Returns all changes. Views of tensors that have become views themselves become views of their root.
    pub fn into_changes(mut self) -> Vec<TensorChange> {
        for id in (0..).take(self.graph.tensors().len()) {
            let place = self.place(id);
            let is_moved = self.view(id).is_some_and(|view| view.root != place.root);
            if is_moved {
                self.change_mut(id).view = Some(place);
            }
        }
        self.changes
    }
}
