//! The pass over the nodes of a graph in which copies are removed: the graph with the changes so far, the accesses to memory, and
//! the nodes that compute copied tensors.

use crate::graph::access::History;
use crate::graph::{Effect, Flags, Graph, GraphEdit, Layout, Region, TensorId, View};
use crate::placement::{Bytes, Step};

use super::element_order::reach;
use super::{CopyFacts, Found, Freedom, Reason, Storage};

/// A graph with changes, which are kept separately.
pub struct CopyState<'a> {
    /// The graph as given.
    pub graph: &'a Graph,
    /// Facts besides the graph.
    pub facts: CopyFacts<'a>,
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
    pub fn new(graph: &'a Graph, facts: CopyFacts<'a>) -> Option<Self> {
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
        let start = match self.facts.tensors[place.root as usize].memory {
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

/// The pass over the nodes, from the last to the first.
pub struct Pass<'a> {
    /// The graph with the changes so far.
    pub state: CopyState<'a>,
    /// The accesses to the memory that copies write to.
    pub history: History,
    /// By step: the last step before it that may do anything.
    pub anything: Vec<Option<Step>>,
    /// The tensors that may change.
    pub freedom: Freedom,
    /// The results so far.
    pub found: Found,
}

impl<'a> Pass<'a> {
    /// Starts the pass on a graph without changes.
    pub fn new(state: CopyState<'a>, freedom: Freedom) -> Self {
        let (history, anything) = (history(&state), anything(&state));
        Self { state, history, anything, freedom, found: Found::default() }
    }
}

/// Records the accesses to the memory that copies write to.
fn history(state: &CopyState<'_>) -> History {
    let graph = state.graph;
    let mut history = History::new(graph.tensors().len());
    for &node in graph.nodes().iter().filter(|&&node| graph.tensor(node).op.copies().is_some()) {
        history.track(state.memory(graph.root(node)));
    }
    for (step, &node) in (0..).zip(graph.nodes()) {
        if !graph.tensor(node).op.is_view() {
            for &id in graph.sources(node).iter().chain([&node]) {
                history.push(step, state.region(id));
            }
        }
    }
    history
}

/// Returns, by step, the last step before it that may do anything.
fn anything(state: &CopyState<'_>) -> Vec<Option<Step>> {
    let mut last = None;
    let last_before = |(step, &node): (Step, &TensorId)| {
        let before = last;
        if state.graph.tensor(node).op.effect() == Effect::Anything {
            last = Some(step);
        }
        before
    };
    (0..).zip(state.graph.nodes()).map(last_before).collect()
}

/// The longest chain of views that is followed; those of real graphs are shorter.
const MOST_VIEWS: usize = 16;

/// INPUT and OUTPUT, and ggml's PARAM and LOSS.
const KEPT: Flags = Flags(Flags::INPUT.0 | Flags::OUTPUT.0 | 4 | 8);

/// A node that computes something in its own memory, and the views through which a copy reads all of it.
#[derive(Debug)]
pub struct Producer {
    /// The node.
    pub node: TensorId,
    /// The step that runs it.
    pub step: Step,
    /// From the source of the copy back to the node; empty when the copy reads the node itself.
    pub views: Vec<TensorId>,
}

/// Returns `true` if the program uses this tensor by itself.
pub fn is_flagged(state: &CopyState<'_>, id: TensorId) -> bool {
    state.graph.tensor(id).flags.has(KEPT) || state.graph.retention().of(id).is_some()
}

impl Producer {
    /// Follows `source`, which a node at `step` copies, back to the node that computes it.
    ///
    /// # Errors
    /// The reason why there is no such node, or it has other uses.
    pub fn find(state: &CopyState<'_>, source: TensorId, step: Step) -> Result<Self, Reason> {
        let mut views = Vec::new();
        let mut at = source;
        while state.graph.tensor(at).view.is_some() {
            let &[next] = state.graph.sources(at) else { return Err(Reason::Producer) };
            let is_view = state.graph.tensor(at).op.is_view() && !is_flagged(state, at);
            if !is_view || views.len() == MOST_VIEWS {
                return Err(Reason::Producer);
            }
            views.push(at);
            at = next;
        }
        let found = Self { node: at, step: state.steps[at as usize].ok_or(Reason::Producer)?, views };
        let computes = state.graph.tensor(at).op.effect() == Effect::Result && found.step < step;
        if !computes || is_flagged(state, at) {
            return Err(Reason::Producer);
        }
        let is_alone = found.views.iter().chain([&at]).all(|&id| state.uses[id as usize] == 1)
            && state.views[at as usize] as usize == found.views.len();
        if is_alone { Ok(found) } else { Err(Reason::Readers) }
    }
}
