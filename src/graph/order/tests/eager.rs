//! Nodes that free memory, moved to where they can run however far that is.

use crate::graph::order::ReorderEffort;
use crate::graph::tests::sketch::Sketch;
use crate::graph::{Op, TensorId};
use crate::placement::Step;

use super::{plan_in_order, reordered};

/// Bytes of a gradient.
const GRADIENT: u64 = 4096;

/// A backward pass of `layers` layers, then the steps of an optimizer, as ggml builds it.
struct Training {
    sketch: Sketch,
    /// By layer: the positions of the node that uses its weight for the last time, and of its optimizer step.
    uses: Vec<(Step, Step)>,
}

impl Training {
    /// `op` is that of an optimizer step: its sources are weight, gradient, both moments and settings.
    fn new(layers: u32, op: Op) -> Self {
        let mut sketch = Sketch::new();
        let mut x = sketch.leaf(64);
        let settings = sketch.leaf(64);
        let external = |sketch: &mut Sketch| {
            let leaf = sketch.leaf(GRADIENT);
            sketch.draft(leaf).tensor.external = true;
            leaf
        };
        let weights: Vec<[TensorId; 2]> = (0..layers).map(|_| [external(&mut sketch), external(&mut sketch)]).collect();
        let mut gradients = Vec::new();
        for &[weight, _] in &weights {
            gradients.push(sketch.node(GRADIENT, &[x]));
            x = sketch.node(64, &[x, weight]);
        }
        for (&[weight, moment], &gradient) in weights.iter().zip(&gradients) {
            let step = sketch.copy(gradient, weight, GRADIENT);
            sketch.draft(step).sources = vec![weight, gradient, moment, moment, settings];
            sketch.draft(step).tensor.op = op;
        }
        sketch.node(64, &[x]);
        let uses = (0..layers).map(|layer| (2 * layer + 1, 2 * layers + layer)).collect();
        Self { sketch, uses }
    }
}

#[test]
fn optimizer_steps_follow_the_last_uses_of_their_weights_however_far_away() {
    for layers in [3, 40, 300] {
        let training = Training::new(layers, Op::OptStepAdamw);
        let found = reordered(&training.sketch, ReorderEffort::default());
        let given = u64::from(layers) * GRADIENT;
        assert!(found.before[0].lower_bound >= given && found.after[0].lower_bound <= GRADIENT + 4 * 64);
        let at = |step: Step| found.order.iter().position(|&other| other == step).expect("all nodes run");
        for &(last_use, step) in &training.uses {
            assert_eq!(at(step), at(last_use) + 1, "{layers} layers");
        }
        plan_in_order(&training.sketch, &found.order);
    }
}

#[test]
fn steps_that_may_write_their_settings_stay_in_their_order() {
    let training = Training::new(5, Op::Unknown);
    let found = reordered(&training.sketch, ReorderEffort::default());
    let steps: Vec<Step> = found.order.iter().copied().filter(|step| (10..15).contains(step)).collect();
    assert_eq!(steps, [10, 11, 12, 13, 14]);
}

#[test]
fn step_waits_for_a_later_use_of_its_weight() {
    let mut training = Training::new(4, Op::OptStepAdamw);
    // The last node but one of the backward pass uses the first weight.
    let weight = training.sketch.drafts[training.sketch.drafts.len() - 5].sources[0];
    let late = training.sketch.drafts.len() - 6;
    training.sketch.drafts[late].sources.push(weight);
    let found = reordered(&training.sketch, ReorderEffort::default());
    let at = |step: Step| found.order.iter().position(|&other| other == step).expect("all nodes run");
    assert!(at(8) > at(7), "the step ran before the weight was used: {:?}", found.order);
    plan_in_order(&training.sketch, &found.order);
}

#[test]
fn last_node_stays_the_last() {
    let mut training = Training::new(4, Op::OptStepAdamw);
    training.sketch.drafts.pop();
    let found = reordered(&training.sketch, ReorderEffort::default());
    assert_eq!(found.order.last(), Some(&11));
    assert!(found.moved > 0 && found.after[0].lower_bound < found.before[0].lower_bound);
}
