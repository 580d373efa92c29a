//! Recomputed graphs, hand-made and random: their plans, their values, and their budgets.

mod budgets;
mod edges;
mod estimates;
mod evaluation;
mod training;
mod values;

use crate::graph::order::Hazards;
use crate::graph::tests::sketch::{List, Sketch};
use crate::graph::{BufferIndex, NotChanged, Requests, Rules, TensorId};
use crate::placement::Bytes;

use super::{Recomputation, RecomputeEffort, TrainingGraph, recompute};

/// The rules that estimates are exact for.
const RULES: Rules = Rules { concat: false, unread_inputs: false, inactive: false, ..Rules::ALL };

/// A graph to recompute, with the fields that a sketch lacks.
struct Case {
    sketch: Sketch,
    same_memory: Vec<TensorId>,
    work: Vec<u64>,
    kept: Vec<bool>,
}

impl Case {
    /// A graph in which no memory has two names, and each byte of a result is one operation.
    fn new(sketch: Sketch) -> Self {
        let count = sketch.drafts.len();
        let work = sketch.drafts.iter().map(|draft| if draft.tensor.op.is_view() { 0 } else { draft.size }).collect();
        Self { sketch, same_memory: (0..).take(count).collect(), work, kept: vec![false; count] }
    }

    fn hazards(&self) -> Hazards {
        Hazards::new(&self.sketch.graph(), &self.same_memory)
    }

    fn given_bytes(&self, rules: Rules) -> Bytes {
        self.sketch.plan(rules).bytes()
    }

    /// Recomputes the graph, and calls `progress` as the search does.
    fn search(
        &self,
        rules: Rules,
        budget: Bytes,
        effort: u64,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Recomputation, NotChanged> {
        let (leafs, nodes) = (self.sketch.requests(List::Leafs), self.sketch.requests(List::Nodes));
        let graph = self.sketch.graph();
        let Self { same_memory, work, kept, .. } = self;
        let (buffers, requests) = (self.sketch.buffers_with(rules), Requests { leafs: &leafs, nodes: &nodes });
        let subject = TrainingGraph { graph: &graph, buffers: &buffers, requests, same_memory, work, kept };
        let mut sizes = |id: TensorId, _: BufferIndex| self.sketch.drafts[id as usize].size;
        let effort = RecomputeEffort(effort);
        recompute(subject, &mut sizes, budget, effort, progress)
    }

    fn recomputed(&self, budget: Bytes) -> Recomputation {
        self.search(RULES, budget, 200_000, &mut |_| true).expect("a training graph")
    }
}

/// A chain of `layers` results, a loss, and a chain of gradients that reads them from the last to the first.
fn chain(layers: usize) -> Sketch {
    let mut sketch = Sketch::new();
    let mut x = sketch.leaf(64);
    sketch.draft(x).tensor.external = true;
    let mut results = Vec::new();
    for _ in 0..layers {
        x = sketch.node(1024, &[x]);
        results.push(x);
    }
    let mut gradient = sketch.node(16, &[x]);
    sketch.flag(gradient, crate::graph::Flags::LOSS);
    for &result in results.iter().rev() {
        gradient = sketch.node(64, &[gradient, result]);
    }
    sketch
}
