//! The state that all parts of an explanation share.

use std::cell::OnceCell;

use crate::graph::order::Hazards;
use crate::graph::snapshot::Snapshot;
use crate::graph::{Allocation, TensorId};
use crate::placement::{Bytes, Step, padded};

use super::draft::Draft;
use super::members::Members;
use super::named::{Named, Node};
use super::planned::PlannedGraph;
use super::uses::NodeUses;
use super::work::Work;

/// A planned graph with its defs and uses, and the work left for trying changes.
pub struct Case<'a> {
    pub planned: PlannedGraph<'a>,
    pub uses: NodeUses,
    pub work: Work,
    pub members: Members,
    /// Computed on first use.
    hazards: OnceCell<Hazards>,
    /// Made on first use, which never comes for graphs that are too large to try changes.
    draft: OnceCell<Draft>,
    /// By buffer: bytes that ggml-alloc needs.
    pub ggml_alloc: Vec<Option<Bytes>>,
}

impl<'a> Case<'a> {
    pub fn new(planned: PlannedGraph<'a>) -> Self {
        Self {
            planned,
            uses: NodeUses::of(planned.snapshot, planned.plan),
            work: Work::new(planned.trials),
            members: Members::of(planned.plan),
            hazards: OnceCell::new(),
            draft: OnceCell::new(),
            ggml_alloc: ggml_alloc(planned.snapshot),
        }
    }

    /// Returns which nodes must stay before which.
    pub fn hazards(&self) -> &Hazards {
        let make = || Hazards::new(&self.planned.snapshot.graph, &self.uses.effects, self.planned.same_memory);
        self.hazards.get_or_init(make)
    }

    /// Returns the graph in editable form.
    pub fn draft(&self) -> &Draft {
        self.draft.get_or_init(|| Draft::of(self.planned.snapshot))
    }

    /// Returns a copy of the graph to edit and try, if work is left for that.
    pub fn new_draft(&self) -> Option<Draft> {
        self.may_try(1).then(|| self.draft().clone())
    }

    /// Takes the work of `trials` trials, if as much is left.
    pub fn may_try(&self, trials: u64) -> bool {
        self.work.take(trials * self.trial_cost())
    }

    /// Returns whether the work of one trial is left.
    pub fn can_try(&self) -> bool {
        self.work.is_left(self.trial_cost())
    }

    fn trial_cost(&self) -> u64 {
        let PlannedGraph { snapshot, buffers, .. } = self.planned;
        (snapshot.tensors.len() + buffers.len()) as u64
    }

    /// Returns the allocation of a tensor, if it lies in this buffer.
    pub fn allocation(&self, id: TensorId, buffer: usize) -> Option<Allocation> {
        self.planned.plan.allocations[id as usize].filter(|allocation| allocation.buffer as usize == buffer)
    }

    /// Returns the padded bytes of an allocation.
    pub fn bytes(&self, allocation: Allocation) -> Bytes {
        padded(allocation.alloc_size, self.planned.buffers[allocation.buffer as usize].alignment)
    }

    pub fn named(&self, id: TensorId) -> Named {
        let named = Named::plain(&self.planned.snapshot.tensors[id as usize]);
        Named { of: self.origin(id), ..named }
    }

    /// Returns a step of the given graph.
    pub fn node(&self, step: Step) -> Node {
        let node = self.planned.snapshot.graph.nodes().get(step as usize);
        Node { step, tensor: node.map(|&node| self.named(node)) }
    }
}

/// Returns the bytes that ggml-alloc needs, by buffer: as recorded in the snapshot, or else computed.
fn ggml_alloc(snapshot: &Snapshot) -> Vec<Option<Bytes>> {
    let recorded = || snapshot.buffers.iter().map(|buffer| buffer.ggml_alloc_size);
    if recorded().all(|size| size.is_some()) {
        return recorded().collect();
    }
    match snapshot.ggml_alloc_sizes() {
        Some(computed) => recorded().zip(computed).map(|(recorded, computed)| recorded.or(Some(computed))).collect(),
        None => recorded().collect(),
    }
}
