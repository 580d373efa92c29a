//! Graphs in which tensors may be mentioned before they are computed, or are in no list. The moment of a step is its
//! number plus 1.

use crate::graph::{BufferIndex, Flags, Graph, Operation, Requests, TensorId};
use crate::placement::Step;

use super::inactive::{Inactive, Readers};
use super::start::{Ends, INACTIVE, Moment, NEVER, NOBODY, Start};

/// Follows the graph; `candidates` may be inactive.
pub fn start(graph: &Graph, requests: Requests<'_>, candidates: &[(Step, TensorId)]) -> Start {
    let mut found = Mentions::new(graph, inactive(graph, candidates));
    found.look_at_leafs(requests.leafs);
    found.look_at_nodes(requests.nodes);
    found.forget_early_writers();
    let ends = found.ends();
    let Mentions { leafs, inputs, names_unseen, inactive, .. } = found;
    Start { leafs, inputs, ends, names_unseen, inactive }
}

fn inactive(graph: &Graph, candidates: &[(Step, TensorId)]) -> Inactive {
    if candidates.is_empty() {
        return Inactive::default();
    }
    let mut is_read = vec![false; graph.tensors().len()];
    for &source in graph.nodes().iter().flat_map(|&node| graph.sources(node)) {
        is_read[source as usize] = true;
    }
    let readers = Readers { is_read: |id| is_read[id as usize], is_read_after: |_| false };
    let steps = Step::try_from(graph.nodes().len()).expect("fewer than 2^32 nodes");
    Inactive::find(graph, candidates, steps, &readers)
}

/// What is found on the way.
struct Mentions<'a> {
    graph: &'a Graph,
    inactive: Inactive,
    tensors: Vec<Mentioned>,
    /// As in [`Start`].
    leafs: Vec<(TensorId, BufferIndex)>,
    /// As in [`Start`].
    inputs: Vec<(TensorId, BufferIndex)>,
    /// As in [`Start`].
    names_unseen: Vec<Step>,
    /// They write through a view whose root no step has computed by then.
    early_writers: Vec<TensorId>,
}

/// What is known of a tensor.
#[derive(Clone)]
struct Mentioned {
    /// The moment of the last step that names it as a source, but for inactive nodes.
    last_read: Moment,
    /// The moment of the last step of an inactive node that does.
    last_inactive_read: Moment,
    /// Is it a leaf?
    is_leaf: bool,
    /// The moment of the last step that computes it; that of the first step for what no step computes.
    computed: Moment,
    /// Memory is to be planned for it, and it has none from the start.
    waits: bool,
    /// No step so far computes it, and it has no memory.
    unseen: bool,
}

impl<'a> Mentions<'a> {
    fn new(graph: &'a Graph, inactive: Inactive) -> Self {
        let tensors = graph.tensors().iter().map(|tensor| {
            let unseen = tensor.view.is_some() || !tensor.external;
            let (last_read, last_inactive_read, is_leaf) = (NOBODY, NOBODY, false);
            Mentioned { last_read, last_inactive_read, is_leaf, computed: FIRST, waits: tensor.is_owned(), unseen }
        });
        Self {
            graph,
            inactive,
            tensors: tensors.collect(),
            leafs: Vec::new(),
            inputs: Vec::new(),
            names_unseen: Vec::new(),
            early_writers: Vec::new(),
        }
    }

    fn look_at_leafs(&mut self, buffers: &[BufferIndex]) {
        for (&leaf, &buffer) in self.graph.leafs().iter().zip(buffers) {
            self.tensors[leaf as usize].is_leaf = true;
            if self.tensors[leaf as usize].gets_memory() {
                self.leafs.push((leaf, buffer));
            }
        }
    }

    /// Finds out when each tensor is computed and when it is named for the last time.
    fn look_at_nodes(&mut self, buffers: &[BufferIndex]) {
        for (step, (&node, &buffer)) in (0..).zip(self.graph.nodes().iter().zip(buffers)) {
            self.tensors[node as usize].computed = FIRST + step;
            if self.graph.tensor(node).operation != Operation::Marker {
                self.tensors[node as usize].unseen = false;
                if self.is_counted(node) && self.tensors[self.graph.root(node) as usize].unseen {
                    self.early_writers.push(node);
                }
            }
            self.give_to_input(node, buffer);
            let is_inactive = self.inactive.has(node);
            for &source in self.graph.sources(node) {
                let tensor = &mut self.tensors[source as usize];
                *(if is_inactive { &mut tensor.last_inactive_read } else { &mut tensor.last_read }) = FIRST + step;
                if self.tensors[source as usize].unseen || source == node {
                    self.notice_unseen(source, step, buffer);
                }
            }
        }
    }

    /// A step names a source that is in no list, or is computed then or later.
    fn notice_unseen(&mut self, source: TensorId, step: Step, buffer: BufferIndex) {
        if self.is_input(source) {
            self.give_to_input(source, buffer);
        } else if self.names_unseen.last() != Some(&step) {
            self.names_unseen.push(step);
        }
    }

    fn give_to_input(&mut self, id: TensorId, buffer: BufferIndex) {
        if self.is_input(id) && self.tensors[id as usize].gets_memory() {
            self.inputs.push((id, buffer));
        }
    }

    fn is_input(&self, id: TensorId) -> bool {
        self.graph.tensor(id).flags.has(Flags::INPUT)
    }

    /// Is it a view of memory to be planned?
    fn is_counted(&self, id: TensorId) -> bool {
        self.graph.tensor(id).view.is_some_and(|view| self.graph.tensor(view.root).is_owned())
    }

    /// What is written into memory before its owner is listed belongs to the making of that one: it is no reader of it.
    fn forget_early_writers(&mut self) {
        for &writer in &self.early_writers {
            if self.tensors[self.graph.root(writer) as usize].computed > self.tensors[writer as usize].computed {
                self.tensors[writer as usize].unseen = true;
            }
        }
    }

    /// When memory ends, now that all is known.
    fn ends(&self) -> Ends {
        let mut ends = Ends { first: FIRST, moments: self.tensors.iter().map(Mentioned::end).collect() };
        let tensors = self.graph.tensors();
        for (end, tensor) in ends.moments.iter_mut().zip(tensors) {
            if tensor.view.is_none() && tensor.flags.has(Flags::OUTPUT) {
                *end = NEVER;
            }
        }
        for (id, tensor) in (0..).zip(tensors) {
            let Some(view) = tensor.view.filter(|_| !self.inactive.has(id)) else { continue };
            let Mentioned { computed, unseen, .. } = self.tensors[id as usize];
            let last_read = self.tensors[id as usize].end();
            // Nobody needs a view that no node computes and nobody reads.
            let is_idle = last_read == NOBODY && unseen && !tensor.flags.has(Flags::OUTPUT);
            if is_idle {
                continue;
            }
            // Somebody may read a view after the graph that is computed after its last reader.
            ends.add_view([id, view.root], tensor, &tensors[view.root as usize]);
            if computed > last_read && tensors[view.root as usize].is_owned() {
                ends.moments[view.root as usize] = NEVER;
            }
        }
        // Where nobody reads a tensor once it is computed, nobody says when it is done with.
        for &node in self.graph.nodes() {
            let end = &mut ends.moments[node as usize];
            if *end != NOBODY && *end < self.tensors[node as usize].computed {
                *end = NEVER;
            }
        }
        self.inactive.nodes().for_each(|node| ends.moments[node as usize] = INACTIVE);
        ends
    }
}

/// The moment of the first step.
const FIRST: Moment = 1;

impl Mentioned {
    /// The moment at which it is needed for the last time, as far as its readers tell. What only inactive nodes read stays
    /// until the last of them, but for a leaf, which is not needed beyond the first step.
    fn end(&self) -> Moment {
        match (self.last_read, self.last_inactive_read) {
            (NOBODY, NOBODY) => NOBODY,
            (NOBODY, _) if self.is_leaf => FIRST,
            (NOBODY, last) | (last, _) => last,
        }
    }

    /// Is memory to be planned for it now, and was not before?
    fn gets_memory(&mut self) -> bool {
        let gets = std::mem::take(&mut self.waits);
        self.unseen &= !gets;
        gets
    }
}
