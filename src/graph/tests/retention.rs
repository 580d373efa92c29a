//! Retained tensors keep their memory, and the simulator finds plans in which they do not.

use crate::graph::{
    AddressMap, Corruption, Flags, GraphPlan, Requests, Retained, Retention, Rules, TensorId, freed, plan_as_ggml,
};
use crate::placement::{Bytes, Step};
use crate::testing::Random;

use super::random::{random_sketch, retain_some};
use super::sketch::{List, Sketch, allocation, live_range, location};

/// A leaf, and a chain of five nodes that may each be computed in place.
fn chain() -> (Sketch, TensorId, [TensorId; 5]) {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let mut last = x;
    let nodes = [(); 5].map(|()| {
        last = sketch.in_place(64, &[last]);
        last
    });
    (sketch, x, nodes)
}

fn size(plan: &GraphPlan) -> Bytes {
    plan.buffers.iter().map(|buffer| buffer.placement.size()).sum()
}

#[test]
fn retained_tensor_lives_to_the_end() {
    let (mut sketch, _, [_, b, c, ..]) = chain();
    assert_eq!(size(&sketch.plan(Rules::ALL)), 64);
    sketch.retain(b, None);
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!(live_range(&found, b).end, 5);
    assert_eq!(allocation(&found, c).in_place_of, None);
    assert_eq!(size(&sketch.plan(Rules::ALL)), 128);
}

#[test]
fn retained_input_lives_to_the_end() {
    let (mut sketch, x, [a, ..]) = chain();
    sketch.retain(x, None);
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!((live_range(&found, x), allocation(&found, a).in_place_of), (0..5, None));
}

#[test]
fn unused_input_is_retained_against_the_rule_that_frees_it() {
    let (mut sketch, ..) = chain();
    let unused = sketch.leaf(64);
    sketch.flag(unused, Flags::INPUT);
    assert_eq!(live_range(&sketch.live_ranges(Rules::ALL), unused), 0..1);
    sketch.retain(unused, None);
    assert_eq!(live_range(&sketch.live_ranges(Rules::ALL), unused), 0..5);
}

#[test]
fn retention_ends_with_its_node() {
    let (mut sketch, _, [a, b, _, d, _]) = chain();
    sketch.retain(b, Some(d));
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!(live_range(&found, b), 0..4, "in the block of the nodes before it");
    assert_eq!(allocation(&found, b).block, allocation(&found, a).block);
    sketch.plan(Rules::ALL);
}

/// The node may not write over its sources, but the memory is free right after it.
#[test]
fn node_that_ends_a_retention_is_not_computed_in_place() {
    let (mut sketch, _, [_, b, c, d, _]) = chain();
    sketch.retain(b, Some(c));
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!((live_range(&found, b).end, allocation(&found, c).in_place_of), (3, None));
    assert_eq!(allocation(&found, d).in_place_of, Some(c));
    sketch.plan(Rules::ALL);
}

#[test]
fn operand_is_not_computed_inside_the_concat_that_ends_its_retention() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(16);
    let (a, b) = (sketch.node(64, &[x]), sketch.node(64, &[x]));
    let joined = sketch.concat([a, b], 128);
    sketch.node(16, &[joined]);
    let is_inside = |sketch: &Sketch| sketch.plan(Rules::ALL).allocations[b as usize].is_some_and(|it| it.within > 0);
    assert!(is_inside(&sketch));
    sketch.retain(b, Some(joined));
    assert!(!is_inside(&sketch));
}

/// A backend may compute both nodes together: it reads `part` and writes `product` then.
#[test]
fn sources_of_a_fused_node_outlast_it() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(16);
    let root = sketch.node(64, &[x]);
    let part = sketch.view(root, 32, 32);
    let norm = sketch.in_place(32, &[part]);
    let product = sketch.in_place(32, &[norm]);
    sketch.node(16, &[product]);
    let ends = |sketch: &Sketch| [root, norm].map(|id| live_range(&sketch.live_ranges(Rules::ALL), id).end);
    assert_eq!(ends(&sketch), [3, 5], "the product is in place");
    sketch.retain(norm, None);
    assert_eq!(ends(&sketch), [4, 5]);
}

#[test]
fn view_is_retained_in_its_root() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let a = sketch.node(64, &[x]);
    let view = sketch.view(a, 16, 16);
    let b = sketch.node(64, &[view]);
    let c = sketch.node(64, &[b]);
    sketch.node(64, &[c]);
    assert_eq!(live_range(&sketch.live_ranges(Rules::ALL), a), 0..3);
    sketch.retain(view, Some(c));
    assert_eq!(live_range(&sketch.live_ranges(Rules::ALL), a), 0..4);
    sketch.retain(view, None);
    assert_eq!(live_range(&sketch.live_ranges(Rules::ALL), a), 0..5);
}

#[test]
fn end_that_is_no_node_retains_to_the_end() {
    let (mut sketch, x, [_, b, ..]) = chain();
    sketch.retain(b, Some(x));
    assert_eq!(live_range(&sketch.live_ranges(Rules::ALL), b).end, 5);
}

#[test]
fn end_before_the_tensor_has_no_effect() {
    let (mut sketch, _, [a, b, c, ..]) = chain();
    sketch.retain(b, Some(a));
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!(allocation(&found, c).in_place_of, Some(b));
    sketch.plan(Rules::ALL);
}

#[test]
fn result_that_is_kept_anyway_does_not_end_with_its_retention() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let result = sketch.node(64, &[x]);
    let a = sketch.node(64, &[x]);
    sketch.node(64, &[a]);
    sketch.retain(result, Some(a));
    assert_eq!(live_range(&sketch.live_ranges(Rules::ALL), result), 0..3);
}

#[test]
fn inactive_node_is_not_retained() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let skipped = sketch.node(64, &[x]);
    let a = sketch.node(64, &[x]);
    sketch.flag(a, Flags::COMPUTE);
    sketch.retain(skipped, None);
    assert!(sketch.live_ranges(Rules::ALL).allocations[skipped as usize].is_none());
    sketch.plan(Rules::ALL);
}

#[test]
fn plan_of_ggml_retains_nothing() {
    let (mut sketch, ..) = chain();
    let plan = |sketch: &Sketch| {
        let (leafs, nodes) = (sketch.requests(List::Leafs), sketch.requests(List::Nodes));
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        plan_as_ggml(&sketch.graph(), &sketch.buffers, requests, &mut |_, _| 64).expect("sizes are small")
    };
    let before = size(&plan(&sketch));
    (0..6).for_each(|id| sketch.retain(id, None));
    assert_eq!(size(&plan(&sketch)), before);
    assert_eq!(size(&sketch.plan(Rules::ALL)), 6 * 64);
}

#[test]
fn retained_value_that_is_lost_is_found() {
    let (mut sketch, x, [_, b, _, d, _]) = chain();
    let plan = sketch.plan(Rules::ALL);
    let lost = |retained: &[(TensorId, Option<TensorId>)]| {
        let (mut sketch, ..) = chain();
        retained.iter().for_each(|&(id, until)| sketch.retain(id, until));
        sketch.simulate(&plan)
    };
    let last = Some(5);
    assert_eq!(lost(&[(b, None)]), Err(Corruption::LostRetained { expected: b, found: last, until: None }));
    let until = Some(3);
    assert_eq!(lost(&[(b, Some(d))]), Err(Corruption::LostRetained { expected: b, found: Some(d), until }));
    assert_eq!(lost(&[(x, Some(d))]), Err(Corruption::LostRetained { expected: x, found: Some(d), until }));
    assert_eq!(lost(&[(b, Some(b)), (5, None)]), Ok(()));
    sketch.retain(b, None);
    assert_eq!(sketch.simulate(&sketch.plan(Rules::ALL)), Ok(()));
}

#[test]
fn retained_view_whose_bytes_are_lost_is_found() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let a = sketch.node(64, &[x]);
    let [low, high] = [0, 32].map(|offset| sketch.view(a, offset, 32));
    let b = sketch.node(32, &[low, high]);
    let c = sketch.node(16, &[b]);
    let mut plan = sketch.plan(Rules::GGML);
    let onto = *location(&mut plan, a);
    *location(&mut plan, c) = onto;
    for (view, is_lost) in [(low, true), (high, false)] {
        sketch.retained.clear();
        sketch.retain(view, None);
        let found = Err(Corruption::LostRetained { expected: a, found: Some(c), until: None });
        assert_eq!(sketch.simulate(&plan), if is_lost { found } else { Ok(()) });
    }
}

#[test]
fn retained_memory_is_not_reported_as_free() {
    let freed_after = |retained: &[(TensorId, Option<TensorId>)]| {
        let mut sketch = Sketch::new();
        let x = sketch.leaf(64);
        let a = sketch.node(64, &[x]);
        let b = sketch.node(64, &[a]);
        let c = sketch.node(64, &[b]);
        sketch.node(64, &[c]);
        assert_eq!([a, b, c], [1, 2, 3]);
        retained.iter().for_each(|&(id, until)| sketch.retain(id, until));
        let plan = sketch.plan(Rules::NONE);
        let steps = freed(&sketch.graph(), &AddressMap::of_plan(&plan)).after;
        steps.iter().map(Vec::len).collect::<Vec<_>>()
    };
    assert_eq!(freed_after(&[]), [0, 1, 1, 1]);
    assert_eq!(freed_after(&[(1, None)]), [0, 0, 1, 1]);
    assert_eq!(freed_after(&[(1, Some(3))]), [0, 0, 2, 1]);
    assert_eq!(freed_after(&[(1, Some(1))]), [0, 1, 1, 1]);
}

#[test]
fn last_of_several_retentions_counts() {
    let retained = |until| Retained { tensor: 3, until };
    let retention: Retention =
        [retained(None), Retained { tensor: 1, until: Some(9) }, retained(Some(7))].into_iter().collect();
    assert_eq!(retention.of(3), Some(retained(Some(7))));
    assert_eq!(retention.list().iter().map(|it| it.tensor).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(retention.until(7).collect::<Vec<_>>(), [3]);
    assert_eq!(retention.until(8).count(), 0);
    assert_eq!((retention.of(2), retention.without(&[3]).of(3)), (None, None));
    assert!(retention.without(&[1, 3]).is_empty());
}

#[test]
fn ends_are_the_last_steps_of_nodes() {
    let (mut sketch, x, [a, b, ..]) = chain();
    sketch.retain(x, Some(b));
    sketch.retain(a, Some(x));
    let mut graph = sketch.graph();
    graph.list_nodes([b]);
    let ends: Vec<(TensorId, Option<Step>)> = graph.retained();
    assert_eq!(ends, [(x, Some(5)), (a, None)]);
}

/// The simulator finds no fault with the plans, and finds retained tensors in most plans of the graph without retention.
#[test]
fn random_graphs_keep_what_is_retained() {
    let mut random = Random::new(31);
    let (mut lost, mut retained) = (0, 0);
    for _ in 0..1200 {
        let mut sketch = random_sketch(&mut random);
        let without: Vec<GraphPlan> = [Rules::ALL, Rules::GGML].map(|rules| sketch.plan(rules)).into();
        retain_some(&mut random, &mut sketch);
        for (rules, without) in [Rules::ALL, Rules::GGML].into_iter().zip(&without) {
            sketch.plan(rules);
            lost += u32::from(matches!(sketch.simulate(without), Err(Corruption::LostRetained { .. })));
        }
        sketch.plan(Rules { in_place: false, ..Rules::ALL });
        retained += sketch.retained.len();
    }
    assert!(retained > 5000 && lost > 800, "poor graphs: {retained} retained, {lost} plans lose one");
}

/// With everything retained, no two tensors that are computed share memory.
#[test]
fn random_graphs_keep_everything() {
    let mut random = Random::new(32);
    for _ in 0..300 {
        let mut sketch = random_sketch(&mut random);
        (0..).take(sketch.drafts.len()).for_each(|id| sketch.retain(id, None));
        let plan = sketch.plan(Rules::ALL);
        assert!(plan.allocations.iter().flatten().all(|it| it.in_place_of.is_none() && it.within == 0));
    }
}
