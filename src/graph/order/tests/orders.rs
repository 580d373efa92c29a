//! The orders that are found.

use crate::graph::Flags;
use crate::graph::order::{Measure, ReorderEffort};
use crate::graph::tests::sketch::{BUFFER, Sketch};
use crate::graph::{BufferSpec, TensorId};
use crate::placement::{Workspace, choose, lower_bound};
use crate::testing::Random;

use super::{RULES, pairs, plan_in_order, problems, random_graph, reordered};

/// Adds a large tensor computed from `x`, and a small one computed from that.
fn branch(sketch: &mut Sketch, x: TensorId) -> (TensorId, TensorId) {
    let large = sketch.node(1024, &[x]);
    (large, sketch.node(16, &[large]))
}

/// Adds branches that are all computed before any is reduced.
fn branches(sketch: &mut Sketch, x: TensorId, count: usize) -> TensorId {
    let large: Vec<TensorId> = (0..count).map(|_| sketch.node(1024, &[x])).collect();
    let small: Vec<TensorId> = large.iter().map(|&large| sketch.node(16, &[large])).collect();
    sketch.node(16, &small)
}

#[test]
fn branches_run_one_after_the_other() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(16);
    branches(&mut sketch, x, 4);
    let found = reordered(&sketch, ReorderEffort::default());
    assert_eq!((found.before[0].lower_bound, found.after[0].lower_bound), (16 + 4 * 1024, 1024 + 4 * 16));
    assert_eq!(found.moved, 3);
    assert_eq!(found.given_bound(), found.before[0].lower_bound);
    plan_in_order(&sketch, &found.order);
}

#[test]
fn optimal_order_stays() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(16);
    let small: Vec<TensorId> = (0..4).map(|_| branch(&mut sketch, x).1).collect();
    sketch.node(16, &small);
    let found = reordered(&sketch, ReorderEffort::default());
    assert_eq!((found.moved, found.order), (0, (0..9).collect()));
    assert_eq!(found.before, found.after);
}

#[test]
fn nodes_that_need_not_move_stay() {
    let mut sketch = Sketch::new();
    let mut x = sketch.leaf(16);
    for layer in 0..40 {
        x = branches(&mut sketch, x, if layer == 20 { 3 } else { 2 });
    }
    let found = reordered(&sketch, ReorderEffort::default());
    assert_eq!(found.after[0].lower_bound, 1024 + 2 * 16 + 16);
    let mut sketch = Sketch::new();
    let mut x = sketch.leaf(16);
    for layer in 0..40 {
        x = if layer == 20 { branches(&mut sketch, x, 2) } else { branch(&mut sketch, x).1 };
    }
    let found = reordered(&sketch, ReorderEffort::default());
    assert_eq!((found.moved, found.after[0].lower_bound), (1, 1024 + 2 * 16));
    let others = found.order.iter().enumerate().filter(|(at, step)| *at != **step as usize).map(|(at, _)| at);
    assert!(others.into_iter().all(|at| (40..45).contains(&at)), "{:?}", found.order);
}

/// The training of a network: a step for each weight, all at the end, although each could follow its gradient.
#[test]
fn gradients_are_used_as_soon_as_they_are_computed() {
    let mut sketch = Sketch::new();
    let mut gradient = sketch.leaf(64);
    let weights: Vec<TensorId> = (0..20).map(|_| sketch.leaf(1024)).collect();
    let steps: Vec<TensorId> = weights
        .iter()
        .map(|&weight| {
            sketch.draft(weight).tensor.external = true;
            let of_weight = sketch.node(1024, &[gradient]);
            gradient = sketch.node(64, &[gradient, weight]);
            of_weight
        })
        .collect();
    for (&weight, &of_weight) in weights.iter().zip(&steps) {
        sketch.copy(of_weight, weight, 1024);
    }
    let found = reordered(&sketch, ReorderEffort::default());
    assert_eq!(found.before[0].lower_bound, 20 * 1024 + 2 * 64);
    assert!(found.after[0].lower_bound <= 2 * 1024 + 2 * 64, "{:?}", found.after);
}

#[test]
fn thousands_of_branches_are_reordered() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(16);
    let large: Vec<TensorId> = (0..2000).map(|_| sketch.node(1024, &[x])).collect();
    let mut level: Vec<TensorId> = large.iter().map(|&large| sketch.node(16, &[large])).collect();
    while level.len() > 1 {
        level = level.chunks(8).map(|part| sketch.node(16, part)).collect();
    }
    let found = reordered(&sketch, ReorderEffort::default());
    assert!(found.before[0].lower_bound > 2000 * 1024 && found.after[0].lower_bound < 2 * 1024, "{:?}", found.after);
}

/// Level by level all leaves of the tree are live at once; branch by branch one tensor per level.
#[test]
fn trees_are_run_branch_by_branch() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(16);
    let mut level: Vec<TensorId> = (0..256).map(|_| sketch.node(1024, &[x])).collect();
    while level.len() > 1 {
        level = level.chunks(2).map(|pair| sketch.in_place(1024, pair)).collect();
    }
    let found = reordered(&sketch, ReorderEffort::default());
    assert_eq!((found.before[0].lower_bound, found.after[0].lower_bound), (16 + 256 * 1024, 16 + 9 * 1024));
}

#[test]
fn effort_is_a_limit() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(16);
    branches(&mut sketch, x, 4);
    for effort in [0, 1] {
        assert_eq!(reordered(&sketch, ReorderEffort(effort)).moved, 0);
    }
}

#[test]
fn no_buffer_grows_for_another() {
    let other = BUFFER;
    let mut sketch = Sketch::with_buffers(&[BUFFER, other]);
    let x = sketch.leaf(16);
    // In the first buffer it is better to reduce each branch at once, in the second to reduce none.
    let large: Vec<TensorId> = (0..3).map(|_| sketch.node(1024, &[x])).collect();
    let small: Vec<TensorId> = large
        .iter()
        .map(|&large| {
            let small = sketch.node(512, &[large]);
            sketch.draft(small).buffer = 1;
            small
        })
        .collect();
    let end = sketch.node(16, &small);
    sketch.draft(end).buffer = 1;
    let found = reordered(&sketch, ReorderEffort::default());
    assert!(found.after[0].lower_bound < found.before[0].lower_bound);
    assert!(found.after[1].lower_bound <= found.before[1].lower_bound);
    plan_in_order(&sketch, &found.order);
}

#[test]
fn tiny_graphs_stay() {
    let empty = reordered(&Sketch::new(), ReorderEffort::default());
    assert_eq!((empty.moved, empty.order), (0, Vec::new()));
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    sketch.flag(x, Flags::OUTPUT);
    assert_eq!(reordered(&sketch, ReorderEffort::default()).moved, 0);
    sketch.node(64, &[x]);
    assert_eq!(reordered(&sketch, ReorderEffort::default()).order, [0]);
}

#[test]
fn nodes_without_leafs_are_reordered_too() {
    let mut sketch = Sketch::new();
    let large: Vec<TensorId> = (0..3).map(|_| sketch.node(1024, &[])).collect();
    let small: Vec<TensorId> = large.iter().map(|&large| sketch.node(16, &[large])).collect();
    sketch.node(16, &small);
    let found = reordered(&sketch, ReorderEffort::default());
    assert_eq!(found.after[0].lower_bound, 1024 + 3 * 16);
}

#[test]
fn sizes_that_overflow_are_an_error() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(1 << 62);
    let y = sketch.node(1 << 62, &[x]);
    sketch.node(1 << 62, &[y]);
    assert!(sketch.try_plan(RULES).is_err());
    let graph = sketch.graph();
    let requests = crate::graph::Requests { leafs: &[0], nodes: &[0, 0] };
    let mut sizes = |_: TensorId, _: u32| 1 << 62;
    let hazards = super::hazards(&sketch);
    let found = super::reorder(
        &graph,
        &[BufferSpec { rules: RULES, ..BUFFER }],
        requests,
        &mut sizes,
        &hazards,
        ReorderEffort::default(),
    );
    assert_eq!(found.err(), sketch.try_plan(RULES).err());
}

#[test]
fn random_graphs_stay_correct_and_never_get_worse() {
    let mut random = Random::new(24);
    let (mut changed, mut others) = (0, 0);
    for _ in 0..1000 {
        let sketch = random_graph(&mut random, 60);
        let found = reordered(&sketch, ReorderEffort(100_000));
        let pairs = pairs(&sketch);
        let mut run = vec![false; pairs.len()];
        for &step in &found.order {
            assert!(pairs[step as usize].iter().all(|&earlier| run[earlier as usize]), "{:?}", found.order);
            assert!(!std::mem::replace(&mut run[step as usize], true), "{step} runs twice");
        }
        assert!(run.into_iter().all(|has_run| has_run), "a node is lost");
        let given: Vec<u32> = (0..).take(pairs.len()).collect();
        let bound = |measures: &[Measure]| measures.iter().map(|measure| measure.lower_bound).collect::<Vec<_>>();
        let shared = problems(&sketch, &given, RULES);
        if bound(&found.before) != shared.iter().map(lower_bound).collect::<Vec<_>>() {
            // A plan is one for other live ranges where these cannot be placed as low.
            let is_higher = |(before, shared): (&Measure, _)| {
                before.size < choose(shared, None, Default::default(), &mut Workspace::default()).placement.size()
            };
            assert!(found.before.iter().zip(&shared).any(is_higher), "{:?}", found.before);
            others += 1;
        }
        let after = plan_in_order(&sketch, &found.order);
        for ((measure, before), buffer) in found.after.iter().zip(&found.before).zip(&after.buffers) {
            assert_eq!((measure.lower_bound, measure.size), (buffer.lower_bound, buffer.placement.size()));
            assert!(measure.lower_bound <= before.lower_bound);
            assert!(measure.size <= before.size && measure.chunks <= before.chunks);
        }
        assert_eq!(found.moved == 0, found.order == given);
        assert_eq!(found.moved == 0, found.after == found.before);
        changed += u32::from(found.moved > 0);
    }
    assert!(changed > 200, "poor graphs: {changed} were changed");
    assert!(others < 10, "of {others} graphs the plan is not one for the live_ranges that share the most memory");
}

#[test]
fn same_graph_gives_same_order() {
    let mut random = Random::new(25);
    for _ in 0..100 {
        let sketch = random_graph(&mut random, 60);
        assert_eq!(reordered(&sketch, ReorderEffort::default()), reordered(&sketch, ReorderEffort::default()));
    }
}
