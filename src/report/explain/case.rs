//! A graph with its plan, and what all parts of an explanation know of it.

use std::cell::{Cell, OnceCell};

use crate::graph::order::Hazards;
use crate::graph::snapshot::Snapshot;
use crate::graph::{Allocation, BufferSpec, GraphEdit, GraphPlan, Lists, Rules, TensorId, tensors_in_blocks};
use crate::placement::{Bytes, Step, padded};

use super::named::{Named, Node, Shape, Source, tells};
use super::uses::NodeUses;

/// A graph with its plan, and how much work its explanation may take.
#[derive(Clone, Copy, Debug)]
pub struct PlannedGraph<'a> {
    /// The graph, with the names of its tensors and buffers.
    pub snapshot: &'a Snapshot,
    /// How each buffer is planned.
    pub buffers: &'a [BufferSpec],
    /// By buffer: the sharing rules that are valid there, whether they are on or off.
    pub allowed: &'a [Rules],
    /// By tensor: the first tensor whose memory overlaps its own before the graph is planned; itself if there is none.
    pub same_memory: &'a [TensorId],
    /// The plan of the graph.
    pub plan: &'a GraphPlan,
    /// The work limit for trying changes: the number of tensors and buffers of changed graphs that may be planned.
    pub trials: u64,
}

/// Enough for every change in graphs of some thousand tensors, and for a few in graphs of a hundred thousand: some tenths of a
/// second.
pub const DEFAULT_TRIALS: u64 = 500_000;

/// A planned graph with its defs and uses.
pub struct Case<'a> {
    pub planned: PlannedGraph<'a>,
    pub uses: NodeUses,
    /// The work left for trying changes: the number of tensors and buffers of changed graphs that may still be planned.
    work: Cell<u64>,
    all_tried: Cell<bool>,
    /// By buffer and block: the tensors in it, by id.
    pub in_block: Vec<Lists<TensorId>>,
    /// Computed on first use.
    hazards: OnceCell<Hazards>,
    /// By buffer: bytes that ggml-alloc needs.
    pub ggml_alloc: Vec<Option<Bytes>>,
}

impl<'a> Case<'a> {
    pub fn new(planned: PlannedGraph<'a>) -> Self {
        Self {
            planned,
            uses: NodeUses::of(planned.snapshot, planned.plan),
            work: Cell::new(planned.trials),
            all_tried: Cell::new(true),
            in_block: tensors_in_blocks(&planned.plan.allocations, &planned.plan.problems),
            hazards: OnceCell::new(),
            ggml_alloc: ggml_alloc(planned.snapshot),
        }
    }

    /// Returns which nodes must stay before which.
    pub fn hazards(&self) -> &Hazards {
        let make = || Hazards::new(&self.planned.snapshot.graph, self.planned.same_memory);
        self.hazards.get_or_init(make)
    }

    /// Returns an edit of the graph to try, if work is left for that.
    pub fn new_edit(&self) -> Option<GraphEdit> {
        self.may_try(1).then(|| GraphEdit::new(&self.planned.snapshot.graph))
    }

    /// Takes the work of `trials` trials. Without that much left, a change stays untried.
    pub fn may_try(&self, trials: u64) -> bool {
        let is_left = self.is_left(trials);
        if is_left {
            self.work.update(|left| left - trials * self.trial_cost());
        }
        is_left
    }

    /// Returns whether the work of one trial is left; if not, a change stays untried.
    pub fn can_try(&self) -> bool {
        self.is_left(1)
    }

    fn is_left(&self, trials: u64) -> bool {
        let is_left = trials * self.trial_cost() <= self.work.get();
        self.all_tried.update(|all| all && is_left);
        is_left
    }

    fn trial_cost(&self) -> u64 {
        let PlannedGraph { snapshot, buffers, .. } = self.planned;
        (snapshot.tensors.len() + buffers.len()) as u64
    }

    /// Returns whether no change stayed untried.
    pub fn all_tried(&self) -> bool {
        self.all_tried.get()
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

    /// Returns the shape of a tensor.
    pub fn shape(&self, id: TensorId) -> Shape {
        let snapshot = self.planned.snapshot;
        Shape { element: snapshot.tensors[id as usize].element.to_string(), ne: snapshot.graph.layout(id).ne }
    }

    /// Returns the sources of a tensor, each once.
    pub fn sources(&self, id: TensorId) -> Vec<Source> {
        let mut seen = Vec::new();
        for &source in self.planned.snapshot.graph.sources(id) {
            if !seen.contains(&source) {
                seen.push(source);
            }
        }
        seen.into_iter().map(|source| Source { tensor: self.named(source), shape: self.shape(source) }).collect()
    }

    /// Returns what made a tensor whose name does not tell: among its first source and that one's first source, and so
    /// on, the nearest with its own name. `None` for a tensor whose name tells, and where there is none.
    fn origin(&self, id: TensorId) -> Option<String> {
        let snapshot = self.planned.snapshot;
        let is_telling = |id: TensorId| tells(&snapshot.tensors[id as usize].name);
        if is_telling(id) || snapshot.tensors[id as usize].name.is_empty() {
            return None;
        }
        let mut at = id;
        // A graph has no cycles; the limit is for files that claim one.
        for _ in 0..snapshot.tensors.len() {
            at = *snapshot.graph.sources(at).first()?;
            if is_telling(at) {
                return Some(Named::plain(&snapshot.tensors[at as usize]).to_string());
            }
        }
        None
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
