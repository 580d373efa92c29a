//! What all parts of an explanation look at.

use std::cell::OnceCell;

use crate::graph::order::Hazards;
use crate::graph::snapshot::Snapshot;
use crate::graph::{Allocation, TensorId};
use crate::placement::{Bytes, Step, padded};

use super::draft::Draft;
use super::members::Members;
use super::uses::Uses;
use super::work::Work;
use super::{Named, Node, Subject};

/// A graph that is being explained.
pub struct Case<'a> {
    pub subject: Subject<'a>,
    pub uses: Uses,
    /// What may still be tried.
    pub work: Work,
    pub members: Members,
    /// Made when they are first needed, which is never in graphs that are too large for trials.
    hazards: OnceCell<Hazards>,
    draft: OnceCell<Draft>,
    /// By buffer: what ggml's own allocator takes.
    pub ggml_alloc: Vec<Option<Bytes>>,
}

impl<'a> Case<'a> {
    pub fn new(subject: Subject<'a>) -> Self {
        Self {
            subject,
            uses: Uses::of(subject.snapshot, subject.plan),
            work: Work::new(subject.trials),
            members: Members::of(subject.plan),
            hazards: OnceCell::new(),
            draft: OnceCell::new(),
            ggml_alloc: ggml_alloc(subject.snapshot),
        }
    }

    /// Which nodes must stay before which.
    pub fn hazards(&self) -> &Hazards {
        let make = || Hazards::new(&self.subject.snapshot.graph, &self.uses.effects, self.subject.same_memory);
        self.hazards.get_or_init(make)
    }

    /// The graph in a form that can be changed.
    pub fn draft(&self) -> &Draft {
        self.draft.get_or_init(|| Draft::of(self.subject.snapshot))
    }

    /// A copy of the graph to change and try, where there is work left for that.
    pub fn new_draft(&self) -> Option<Draft> {
        self.may_try(1).then(|| self.draft().clone())
    }

    /// Takes the work of so many trials, where there is as much left.
    pub fn may_try(&self, trials: u64) -> bool {
        self.work.take(trials * self.trial())
    }

    /// Is the work of one trial left?
    pub fn can_try(&self) -> bool {
        self.work.is_left(self.trial())
    }

    fn trial(&self) -> u64 {
        let Subject { snapshot, buffers, .. } = self.subject;
        (snapshot.tensors.len() + buffers.len()) as u64
    }

    /// Where a tensor lives, if that is in this buffer.
    pub fn allocation(&self, id: TensorId, buffer: usize) -> Option<Allocation> {
        self.subject.plan.allocations[id as usize].filter(|allocation| allocation.buffer as usize == buffer)
    }

    /// Bytes of a tensor with this allocation.
    pub fn bytes(&self, allocation: Allocation) -> Bytes {
        padded(allocation.alloc_size, self.subject.buffers[allocation.buffer as usize].alignment)
    }

    pub fn named(&self, id: TensorId) -> Named {
        let tensor = &self.subject.snapshot.tensors[id as usize];
        Named { name: tensor.name.clone(), op: tensor.desc.clone() }
    }

    /// A step of the graph as it is.
    pub fn node(&self, step: Step) -> Node {
        let node = self.subject.snapshot.graph.nodes().get(step as usize);
        Node { step, tensor: node.map(|&node| self.named(node)) }
    }
}

/// By buffer: what ggml's own allocator takes, as the snapshot says, or else as its rules do.
fn ggml_alloc(snapshot: &Snapshot) -> Vec<Option<Bytes>> {
    let known = || snapshot.buffers.iter().map(|buffer| buffer.ggml_alloc_size);
    if known().all(|size| size.is_some()) {
        return known().collect();
    }
    match snapshot.ggml_alloc_sizes() {
        Some(computed) => known().zip(computed).map(|(known, computed)| known.or(Some(computed))).collect(),
        None => known().collect(),
    }
}
