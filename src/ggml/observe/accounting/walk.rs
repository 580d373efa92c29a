//! The tensors of a graph, with their steps and uses.

use std::collections::HashMap;

use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::graph::{Effect, Flags};
use crate::offload::accounting::{Step, Steps};

/// The tensors of a graph: its leafs, its nodes, and those that they refer to.
#[derive(Debug)]
pub struct Walk<'g> {
    /// Each tensor once.
    pub tensors: Vec<TensorRef<'g>>,
    /// By tensor: when it is needed.
    pub steps: Vec<Option<Steps>>,
    /// By tensor: whether a node writes to the memory that it owns, other than by computing it.
    pub is_written: Vec<bool>,
    /// By tensor: whether a node executes an operation to compute it.
    pub is_executed: Vec<bool>,
    ids: HashMap<usize, usize>,
}

impl<'g> Walk<'g> {
    /// Walks over a graph.
    pub fn new(runtime: &Runtime, graph: GraphRef<'g>) -> Self {
        let mut walk = Self::none();
        graph.leafs.iter().chain(graph.nodes).for_each(|&tensor| _ = walk.id(tensor));
        for (step, &node) in (0..).zip(graph.nodes) {
            let id = walk.id(node);
            let effect = Effect::of(&runtime.operations.name(node.op()).to_string_lossy());
            let is_executed = effect != Effect::View && node.op() != 0;
            walk.is_executed[id] = is_executed;
            let root = walk.root(node);
            walk.is_written[root] |= is_executed && root != id;
            walk.touch(id, step);
            walk.touch(root, step);
            for source in node.sources() {
                let source_id = walk.id(source);
                let root = walk.root(source);
                walk.touch(source_id, step);
                walk.touch(root, step);
            }
        }
        let last = graph.nodes.len().checked_sub(1).and_then(|last| Step::try_from(last).ok());
        for id in 0..walk.tensors.len() {
            if let (true, Some(last)) = (Flags(walk.tensors[id].flags()).has(Flags::OUTPUT), last) {
                let root = walk.root(walk.tensors[id]);
                [id, root].into_iter().for_each(|id| walk.extend(id, last));
            }
        }
        walk
    }

    fn none() -> Self {
        Self {
            tensors: Vec::new(),
            steps: Vec::new(),
            is_written: Vec::new(),
            is_executed: Vec::new(),
            ids: HashMap::new(),
        }
    }

    /// Returns the position of a tensor, which is added with its root if it is new.
    fn id(&mut self, tensor: TensorRef<'g>) -> usize {
        let count = self.tensors.len();
        let id = *self.ids.entry(tensor.address()).or_insert(count);
        if id == count {
            self.tensors.push(tensor);
            self.steps.push(None);
            self.is_written.push(false);
            self.is_executed.push(false);
            if let Some(root) = tensor.view_source() {
                self.id(root);
            }
        }
        id
    }

    /// Returns the position of the tensor that owns the memory of one.
    pub fn root(&self, tensor: TensorRef<'g>) -> usize {
        let root = tensor.view_source().unwrap_or(tensor);
        self.ids[&root.address()]
    }

    /// The tensor is computed, written or read at this step.
    fn touch(&mut self, id: usize, step: Step) {
        self.steps[id].get_or_insert(Steps { first: step, last: step });
        self.extend(id, step);
    }

    fn extend(&mut self, id: usize, step: Step) {
        if let Some(steps) = &mut self.steps[id] {
            steps.last = step.max(steps.last);
        }
    }
}
