//! Runs graphs symbolically: each value is a hash of the operation and of the values that it reads in memory.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::graph::recompute::Recomputation;
use crate::graph::{Effect, Flags, Graph, TensorId};

use super::Case;

/// The result of running a graph.
#[derive(Debug, PartialEq, Eq)]
pub struct Values {
    /// The value of each node right after it has run, by the given tensor.
    pub nodes: HashMap<TensorId, u64>,
    /// The value of each copy right after it has run, by the given tensor that it computes again.
    pub copies: HashMap<TensorId, u64>,
    /// Values that can be read afterwards: external memory, outputs and retained tensors, by the given tensor.
    pub end: HashMap<TensorId, u64>,
}

/// Runs the given graph.
pub fn given(case: &Case) -> Values {
    let graph = case.sketch.graph();
    let origins: Vec<TensorId> = (0..).take(graph.tensors().len()).collect();
    let again = vec![false; origins.len()];
    Evaluation::new(case, &graph, &origins, &again).run()
}

/// Runs the graph with copies.
pub fn rebuilt(case: &Case, found: &Recomputation) -> Values {
    let edited = &found.edited;
    let again: Vec<bool> = (0..).take(edited.origins.len()).map(|id| edited.is_new(id)).collect();
    Evaluation::new(case, &edited.graph, &edited.origins, &again).run()
}

struct Evaluation<'a> {
    case: &'a Case,
    graph: &'a Graph,
    origins: &'a [TensorId],
    again: &'a [bool],
    /// The content of each memory, by its given tensor and whether it is that of a copy.
    contents: HashMap<(TensorId, bool), u64>,
    /// A sum over the nodes that have run, copies left out: what a function of the program may depend on.
    history: u64,
}

impl<'a> Evaluation<'a> {
    fn new(case: &'a Case, graph: &'a Graph, origins: &'a [TensorId], again: &'a [bool]) -> Self {
        Self { case, graph, origins, again, contents: HashMap::new(), history: 0 }
    }

    fn run(mut self) -> Values {
        let mut values = Values { nodes: HashMap::new(), copies: HashMap::new(), end: HashMap::new() };
        for &node in self.graph.nodes() {
            let value = self.execute(node);
            let of_kind = if self.again[node as usize] { &mut values.copies } else { &mut values.nodes };
            assert_eq!(of_kind.insert(self.origins[node as usize], value), None, "a node runs twice");
        }
        for id in (0..).take(self.graph.tensors().len()).filter(|&id| !self.again[id as usize]) {
            let root = self.graph.tensor(self.graph.root(id));
            let is_output = self.graph.tensor(id).flags.has(Flags::OUTPUT) || root.flags.has(Flags::OUTPUT);
            let is_retained = self.graph.retention().of(id).is_some_and(|retained| retained.until.is_none());
            if root.external || is_output || is_retained {
                values.end.insert(self.origins[id as usize], self.read(id));
            }
        }
        values
    }

    /// Runs a node, and returns what its memory holds then.
    fn execute(&mut self, node: TensorId) -> u64 {
        let origin = self.origins[node as usize];
        let effect = self.case.sketch.drafts[origin as usize].tensor.op.effect();
        let sources: Vec<TensorId> = self.graph.sources(node).to_vec();
        let read: Vec<u64> = sources.iter().map(|&source| if source == node { 0 } else { self.read(source) }).collect();
        match effect {
            Effect::Nothing | Effect::View => {}
            Effect::Result => self.write(node, hash(&(origin, &read))),
            Effect::Sources(_) => {
                self.write_sources(&sources, effect, hash(&(origin, &read)));
                self.write(node, hash(&(origin, &read)));
            }
            Effect::Anything => {
                assert!(!self.contents.keys().any(|&(_, again)| again), "a function of the program runs after a copy");
                let value = hash(&(origin, &read, self.history));
                self.write_sources(&sources, effect, value);
                self.write(node, value);
            }
        }
        if !self.again[node as usize] {
            self.history = self.history.wrapping_add(hash(&origin));
        }
        self.read(node)
    }

    fn write_sources(&mut self, sources: &[TensorId], effect: Effect, value: u64) {
        for (slot, &source) in sources.iter().enumerate().filter(|&(slot, _)| effect.writes_source(slot)) {
            self.write(source, hash(&(value, slot)));
        }
    }

    /// Returns the memory of a tensor.
    fn memory(&self, id: TensorId) -> (TensorId, bool) {
        let root = self.graph.root(id) as usize;
        (self.case.same_memory[self.origins[root] as usize], self.again[root])
    }

    fn content(&self, id: TensorId) -> u64 {
        let memory = self.memory(id);
        self.contents.get(&memory).copied().unwrap_or_else(|| hash(&("not written", memory)))
    }

    /// Returns the bytes of a tensor: all of its root, or some.
    fn read(&self, id: TensorId) -> u64 {
        let content = self.content(id);
        let view = self.graph.tensor(id).view;
        view.map_or(content, |view| hash(&(content, view.offset, self.graph.layout(id).ne)))
    }

    fn write(&mut self, id: TensorId, value: u64) {
        let content = match self.graph.tensor(id).view {
            None => value,
            Some(view) => hash(&(self.content(id), view.offset, self.graph.layout(id).ne, value)),
        };
        self.contents.insert(self.memory(id), content);
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
