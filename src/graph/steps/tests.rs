//! Steps of small graphs by hand.

use crate::graph::tests::sketch::Sketch;
use crate::graph::{Flags, Retained, Rules, TensorId};

use super::*;

/// Returns what is retained in the sketch, cut after these nodes, with the node until which it is.
fn retained_in(sketch: &Sketch, cuts: &[Step]) -> Vec<(TensorId, Option<TensorId>)> {
    let graph = sketch.graph();
    let steps = steps_between(graph.nodes().len(), cuts).expect("the cuts are in order");
    retained(&graph, &steps).list().iter().map(|it: &Retained| (it.tensor, it.until)).collect()
}

/// Returns the peak and the crossing bytes of each step of the sketch, whose plan retains what the steps need.
fn bytes_in(sketch: &mut Sketch, cuts: &[Step]) -> Vec<(Bytes, Bytes)> {
    sketch.retained = retained_in(sketch, cuts).iter().map(|&(tensor, until)| Retained { tensor, until }).collect();
    let plan = sketch.plan(Rules { in_place: true, ..Rules::NONE });
    let steps = steps_between(sketch.graph().nodes().len(), cuts).expect("the cuts are in order");
    bytes_of(&steps, &plan.problems).iter().map(|step| (step.peak, step.crossing)).collect()
}

#[test]
fn steps_are_between_cuts() {
    assert_eq!(steps_between(5, &[]).map(|steps| (steps.len(), steps[0].clone())), Ok((1, 0..5)));
    assert_eq!(steps_between(5, &[0, 3]), Ok(vec![0..1, 1..4, 4..5]));
    assert_eq!(steps_between(3, &[0, 1]), Ok(vec![0..1, 1..2, 2..3]));
}

#[test]
fn cuts_that_are_none_are_refused() {
    let refused = |found: Result<Vec<Range<Step>>, String>, why: &str| {
        let message = found.expect_err("these are no cuts");
        assert!(message.contains(why), "{message}");
    };
    refused(steps_between(0, &[]), "the graph has no nodes");
    refused(choose_steps(0, 1, &[]), "the graph has no nodes");
    refused(steps_between(5, &[4]), "cut 0 is at the last node");
    refused(steps_between(5, &[1, 4]), "cut 1 is at the last node");
    refused(steps_between(5, &[1, 2, 2]), "cut 2 is not at a later node than cut 1");
    refused(steps_between(5, &[3, 1]), "cut 1 is not at a later node than cut 0");
    refused(choose_steps(3, 0, &[]), "0 steps");
    refused(choose_steps(3, 4, &[]), "3 nodes, which are fewer than the 4 steps");
}

#[test]
fn chosen_steps_are_of_about_as_many_nodes() {
    for nodes in 1..40 {
        for count in 1..=nodes {
            let steps = choose_steps(nodes, count, &[]).expect("as many nodes as steps");
            assert_eq!(steps.len(), count, "{nodes} nodes");
            let shortest = steps.iter().map(|step| step.len()).min();
            assert_eq!(shortest, Some(nodes / count), "{nodes} nodes in {steps:?}");
        }
    }
}

#[test]
fn chosen_steps_are_cut_where_few_bytes_cross() {
    let mut sketch = Sketch::new();
    let mut last = sketch.leaf(16);
    for size in [64, 64, 32, 64, 64, 64, 16, 64, 64] {
        last = sketch.node(size, &[last]);
    }
    let problems = sketch.plan(Rules::NONE).problems;
    assert_eq!(choose_steps(9, 3, &problems), Ok(vec![0..3, 3..7, 7..9]));
}

#[test]
fn what_a_step_reads_of_earlier_ones_is_retained_until_it_has_run() {
    let mut sketch = Sketch::new();
    let input = sketch.leaf(16);
    let a = sketch.node(64, &[input]);
    let b = sketch.node(32, &[a]);
    let c = sketch.node(64, &[b]);
    let d = sketch.node(16, &[c]);
    let e = sketch.node(16, &[d, a]);
    assert_eq!(retained_in(&sketch, &[1, 3]), [(input, None), (a, Some(e)), (b, Some(d)), (d, Some(e)), (e, None)]);
    assert_eq!(retained_in(&sketch, &[]), [(input, None), (e, None)]);
    // The input in all steps; b, of 32 bytes, to the end of the second.
    assert_eq!(bytes_in(&mut sketch, &[1, 3]), [(112, 112), (192, 96), (112, 0)]);
}

#[test]
fn the_root_of_a_view_is_retained() {
    let mut sketch = Sketch::new();
    let input = sketch.leaf(16);
    let root = sketch.node(64, &[input]);
    let view = sketch.view(root, 16, 16);
    let other = sketch.node(16, &[input]);
    let copy = sketch.copy(other, root, 16);
    let reader = sketch.node(16, &[view, copy]);
    let expected = [(input, None), (root, Some(reader)), (other, Some(reader)), (reader, None)];
    assert_eq!(retained_in(&sketch, &[2]), expected);
    // A write through a view is a use of its root.
    assert_eq!(retained_in(&sketch, &[0])[1], (root, Some(reader)));
}

#[test]
fn a_result_that_only_itself_reads_is_retained() {
    let mut sketch = Sketch::new();
    let input = sketch.leaf(16);
    let cast = sketch.node(16, &[input]);
    sketch.draft(cast).sources.push(cast);
    let last = sketch.node(16, &[input]);
    assert_eq!(retained_in(&sketch, &[0]), [(input, None), (cast, None), (last, None)]);
}

#[test]
fn a_parameter_among_the_nodes_is_an_input() {
    let mut sketch = Sketch::new();
    let parameter = sketch.marker(&[]);
    let a = sketch.node(16, &[parameter]);
    let last = sketch.node(16, &[a]);
    assert_eq!(retained_in(&sketch, &[]), [(parameter, None), (last, None)]);
}

#[test]
fn memory_that_exists_is_not_retained() {
    let mut sketch = Sketch::new();
    let weight = sketch.leaf(1024);
    sketch.draft(weight).tensor.external = true;
    let a = sketch.node(16, &[weight]);
    let stored = sketch.node(512, &[a]);
    sketch.draft(stored).tensor.external = true;
    let last = sketch.node(16, &[stored, a]);
    assert_eq!(retained_in(&sketch, &[1]), [(a, Some(last)), (last, None)]);
}

#[test]
fn retention_by_the_program_stays() {
    let mut sketch = Sketch::new();
    let input = sketch.leaf(16);
    let a = sketch.node(16, &[input]);
    let b = sketch.node(16, &[a]);
    let last = sketch.node(16, &[b]);
    sketch.flag(last, Flags::OUTPUT);
    sketch.retain(a, None);
    sketch.retain(b, Some(last));
    assert_eq!(retained_in(&sketch, &[0]), [(input, None), (a, None), (b, Some(last)), (last, None)]);
}
