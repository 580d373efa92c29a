//! Small graphs with named tensors.

use std::collections::HashMap;

use crate::graph::Effect;
use crate::graph::snapshot::{BufferInfo, Snapshot, TensorInfo};
use crate::graph::tests::sketch::{BUFFER, Sketch};
use crate::graph::{BufferSpec, Flags, Op, Rules, TensorId};
use crate::placement::Bytes;
use crate::report::explain::{
    Advice, BufferExplanation, DEFAULT_TRIALS, Explanation, LiveBlock, Peak, PlannedGraph, explain,
};

/// A graph of named tensors: leafs are "x" and nodes "n", each followed by its id. Nodes are MUL_MAT by default.
pub struct Scene {
    pub sketch: Sketch,
    operations: HashMap<TensorId, &'static str>,
    pub names: HashMap<TensorId, String>,
}

impl Scene {
    /// Has one buffer, planned with `rules`.
    pub fn new(rules: Rules) -> Self {
        Self::with_buffers(&[BufferSpec { rules, ..BUFFER }])
    }

    pub fn with_buffers(buffers: &[BufferSpec]) -> Self {
        Self { sketch: Sketch::with_buffers(buffers), operations: HashMap::new(), names: HashMap::new() }
    }

    /// Adds a leaf that is filled from outside.
    pub fn input(&mut self, size: Bytes) -> TensorId {
        let id = self.sketch.leaf(size);
        self.sketch.flag(id, Flags::INPUT);
        id
    }

    pub fn node(&mut self, size: Bytes, sources: &[TensorId]) -> TensorId {
        self.sketch.node(size, sources)
    }

    /// Adds a node with an operation that is not in ggml's list of those that may be computed in place.
    pub fn operation(&mut self, name: &'static str, size: Bytes, sources: &[TensorId]) -> TensorId {
        let id = self.sketch.node(size, sources);
        let tensor = &mut self.sketch.draft(id).tensor;
        tensor.op = Op::named(name);
        tensor.in_place = tensor.op.in_place(false);
        self.operations.insert(id, name);
        id
    }

    pub fn name(&mut self, id: TensorId, name: &str) {
        self.names.insert(id, name.to_owned());
    }

    pub fn snapshot(&self) -> Snapshot {
        let buffer = |(id, buffer): (usize, &BufferSpec)| BufferInfo {
            name: format!("buffer {id}"),
            alignment: buffer.alignment,
            max_size: buffer.max_chunk,
            ggml_alloc_size: None,
            rules: Some(buffer.rules),
            effort: Some(buffer.effort),
        };
        let ids = (0..).take(self.sketch.drafts.len());
        Snapshot {
            label: "scene".to_owned(),
            buffers: self.sketch.buffers.iter().enumerate().map(buffer).collect(),
            graph: self.sketch.graph(),
            tensors: ids.map(|id| self.tensor(id)).collect(),
        }
    }

    fn tensor(&self, id: TensorId) -> TensorInfo {
        let draft = &self.sketch.drafts[id as usize];
        let kind = if draft.tensor.op.effect() == Effect::Nothing { "x" } else { "n" };
        let op = self.operations.get(&id).copied().unwrap_or(draft.tensor.op.name());
        TensorInfo {
            id: u64::from(id),
            name: self.names.get(&id).cloned().unwrap_or_else(|| format!("{kind}{id}")),
            op: op.into(),
            desc: op.into(),
            element: "f32".into(),
            nbytes: draft.nbytes,
            size: draft.size,
            buffer: draft.buffer,
            elsewhere: Vec::new(),
        }
    }

    /// Returns the lower bound of the plan, by buffer.
    pub fn bounds(&self) -> Vec<Bytes> {
        let plan = self.snapshot().plan_as_recorded().expect("sizes are small");
        plan.buffers.iter().map(|buffer| buffer.lower_bound).collect()
    }

    pub fn bound(&self) -> Bytes {
        self.bounds()[0]
    }

    pub fn explain(&self) -> Explanation {
        explain_snapshot(&self.snapshot())
    }

    /// Explains the only buffer.
    pub fn explained(&self) -> BufferExplanation {
        let mut buffers = self.explain().buffers;
        assert_eq!(buffers.len(), 1);
        buffers.remove(0)
    }

    /// Returns the only change of a kind that lowers the peak.
    pub fn advice(&self, is_kind: impl Fn(&Advice) -> bool) -> Advice {
        let explained = self.explained();
        let mut found = explained.advice.iter().filter(|advice| is_kind(advice));
        match (found.next(), found.next()) {
            (Some(advice), None) => advice.clone(),
            _ => panic!("{:#?}", explained.advice),
        }
    }
}

/// Explains a graph as planned by the program that captured it, and checks the invariants of every explanation.
pub fn explain_snapshot(snapshot: &Snapshot) -> Explanation {
    let explanation = explain_with(snapshot, DEFAULT_TRIALS);
    assert!(explanation.all_tried);
    for buffer in &explanation.buffers {
        let live: Bytes = live(buffer).iter().map(|block| block.bytes).sum();
        assert_eq!(live, buffer.lower_bound);
        assert_eq!(buffer.size - buffer.fragmentation, buffer.lower_bound);
        assert!(buffer.advice.iter().all(|advice| advice.lower_bound + advice.saves == buffer.lower_bound));
        assert!(buffer.advice.is_sorted_by(|a, b| a.saves >= b.saves));
    }
    explanation
}

/// Explains a graph with a work limit, unchecked.
pub fn explain_with(snapshot: &Snapshot, trials: u64) -> Explanation {
    let buffers = snapshot.recorded_buffers();
    let plan = snapshot.plan_in(&buffers).expect("sizes are small");
    let same_memory: Vec<TensorId> = (0..).take(snapshot.tensors.len()).collect();
    let allowed = vec![Rules::ALL; buffers.len()];
    explain(PlannedGraph {
        snapshot,
        buffers: &buffers,
        allowed: &allowed,
        same_memory: &same_memory,
        plan: &plan,
        trials,
    })
}

fn live(buffer: &BufferExplanation) -> &[LiveBlock] {
    buffer.peak.as_ref().map_or(&[], |peak| &peak.live)
}

/// Returns the bytes of each block and the names of its tensors, in the order of their defs.
pub fn blocks(peak: &Peak) -> Vec<(Bytes, Vec<&str>)> {
    peak.live
        .iter()
        .map(|block| (block.bytes, block.tensors.iter().map(|live| live.tensor.name.as_str()).collect()))
        .collect()
}
