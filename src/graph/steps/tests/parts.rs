//! Tensors that cross a cut, kept tensors, and the memory of each part.

use crate::graph::Flags;
use crate::graph::tests::sketch::{List, Sketch};

use super::{compute, crossing, planned};

#[test]
fn a_chain_needs_one_tensor_across_each_cut() {
    let mut sketch = Sketch::new();
    let input = sketch.leaf(16);
    let a = sketch.node(64, &[input]);
    let b = sketch.node(32, &[a]);
    let c = sketch.node(64, &[b]);
    let d = sketch.node(16, &[c]);
    let plan = planned(&sketch, &[1]);
    assert_eq!(crossing(&plan), [(b, 0, 1)]);
    assert_eq!(compute(&plan), [64, 64]);
    assert_eq!(plan.kept.iter().map(|owner| owner.tensor).collect::<Vec<_>>(), [input, d]);
    assert_eq!((plan.kept_bytes(), plan.peak()), (32, 32 + 32 + 64));
}

#[test]
fn a_tensor_is_held_from_its_def_to_its_last_use() {
    let mut sketch = Sketch::new();
    let input = sketch.leaf(16);
    let early = sketch.node(32, &[input]);
    let middle = sketch.node(16, &[input]);
    let late = sketch.node(16, &[middle, early]);
    sketch.node(16, &[late]);
    let plan = planned(&sketch, &[0, 1, 2]);
    assert_eq!(crossing(&plan), [(early, 0, 2), (middle, 1, 2), (late, 2, 3)]);
    assert_eq!(plan.parts.iter().map(|part| part.crossing).collect::<Vec<_>>(), [32, 48, 64, 16]);
    assert_eq!(compute(&plan), [0, 0, 0, 0]);
}

#[test]
fn the_root_of_a_view_crosses() {
    let mut sketch = Sketch::new();
    let input = sketch.leaf(16);
    let root = sketch.node(64, &[input]);
    let view = sketch.view(root, 16, 16);
    let reader = sketch.node(16, &[view]);
    let plan = planned(&sketch, &[1]);
    assert_eq!(crossing(&plan), [(root, 0, 1)]);
    assert_eq!(plan.kept.last().map(|owner| owner.tensor), Some(reader));
}

#[test]
fn a_write_through_a_view_is_a_use_of_its_root() {
    let mut sketch = Sketch::new();
    let input = sketch.leaf(16);
    let root = sketch.node(64, &[input]);
    let other = sketch.node(16, &[input]);
    let copy = sketch.copy(other, root, 16);
    sketch.node(16, &[copy]);
    assert_eq!(crossing(&planned(&sketch, &[0])), [(root, 0, 1)]);
}

#[test]
fn outputs_inputs_and_unused_results_are_kept() {
    let mut sketch = Sketch::new();
    let input = sketch.leaf(16);
    let unlisted = sketch.add(List::None, 16, &[]);
    let output = sketch.node(32, &[input, unlisted]);
    let viewed = sketch.node(32, &[output]);
    let view = sketch.view(viewed, 0, 16);
    let written = sketch.node(48, &[view]);
    sketch.view(written, 0, 16);
    let last = sketch.node(16, &[written]);
    sketch.flag(output, Flags::OUTPUT);
    sketch.flag(view, Flags::OUTPUT);
    let plan = planned(&sketch, &[1, 2]);
    let kept: Vec<_> = plan.kept.iter().map(|owner| owner.tensor).collect();
    assert_eq!(kept, [input, unlisted, output, viewed, written, last]);
    assert_eq!(crossing(&plan), []);
    assert_eq!(plan.peak(), plan.kept_bytes());
}

#[test]
fn memory_that_exists_is_not_counted() {
    let mut sketch = Sketch::new();
    let weight = sketch.leaf(1024);
    sketch.draft(weight).tensor.external = true;
    let a = sketch.node(16, &[weight]);
    let stored = sketch.node(512, &[a]);
    sketch.draft(stored).tensor.external = true;
    sketch.node(16, &[stored, a]);
    let plan = planned(&sketch, &[1]);
    assert_eq!((plan.kept_bytes(), crossing(&plan)), (16, vec![(a, 0, 1)]));
}

#[test]
fn a_crossing_tensor_is_not_computed_in_place() {
    let mut sketch = Sketch::new();
    sketch.buffers[0].rules = crate::graph::Rules::ALL;
    let input = sketch.leaf(64);
    let a = sketch.node(64, &[input]);
    let b = sketch.in_place(64, &[a]);
    let c = sketch.in_place(64, &[b]);
    let d = sketch.node(16, &[c]);
    sketch.node(16, &[d]);
    assert_eq!(compute(&planned(&sketch, &[])), [64 + 16]);
    let cut = planned(&sketch, &[0]);
    assert_eq!(crossing(&cut), [(a, 0, 1)]);
    assert_eq!(compute(&cut), [0, 64 + 16]);
}

#[test]
fn every_placed_tensor_is_inside_its_part() {
    let mut sketch = Sketch::new();
    let input = sketch.leaf(16);
    let mut last = input;
    for size in [16, 32, 48, 64, 16, 32] {
        last = sketch.node(size, &[last]);
    }
    let plan = planned(&sketch, &[2]);
    let placed: Vec<Vec<u32>> =
        plan.parts.iter().map(|part| part.placed.iter().map(|placed| placed.tensor).collect()).collect();
    assert_eq!(placed, [vec![1, 2], vec![4, 5]]);
}
