//! From which step to which tensors are live.

use crate::graph::{Flags, Op, Rules};
use crate::placement::Shrink;

use super::sketch::{BUFFER, List, Sketch, allocation, live_range};

#[test]
fn value_is_live_from_its_def_through_its_last_use() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let a = sketch.node(64, &[x]);
    let b = sketch.node(64, &[a]);
    let c = sketch.node(64, &[b, a]);
    let d = sketch.node(64, &[c]);
    let found = sketch.live_ranges(Rules::ALL);
    let lives = [x, a, b, c, d].map(|id| live_range(&found, id));
    assert_eq!(lives, [0..1, 0..3, 1..3, 2..4, 3..4]);
}

#[test]
fn sizes_are_padded_to_the_alignment() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(1);
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!(allocation(&found, x).alloc_size, 1);
    assert_eq!(found.blocks[0].blocks()[0].size, 16);
}

#[test]
fn output_is_never_freed() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let a = sketch.node(64, &[x]);
    let b = sketch.node(64, &[a]);
    sketch.node(64, &[b]);
    sketch.flag(a, Flags::OUTPUT);
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!((live_range(&found, a), live_range(&found, b)), (0..3, 1..3));
}

#[test]
fn output_view_keeps_its_root() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let root = sketch.node(64, &[x]);
    let view = sketch.view(root, 16, 32);
    let b = sketch.node(64, &[view]);
    sketch.node(64, &[b]);
    sketch.flag(view, Flags::OUTPUT);
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!(live_range(&found, root), 0..4);
    assert_eq!(found.allocations[view as usize], None);
}

#[test]
fn inputs_are_live_from_the_start_through_their_last_use() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let unlisted = sketch.add(List::None, 64, &[]);
    let a = sketch.node(64, &[x]);
    let node = sketch.node(64, &[a]);
    let b = sketch.node(64, &[node, unlisted]);
    sketch.node(64, &[b]);
    for input in [unlisted, node] {
        sketch.flag(input, Flags::INPUT);
    }
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!((live_range(&found, unlisted), live_range(&found, node)), (0..3, 0..3));
}

#[test]
fn unused_leaf_stays() {
    let mut sketch = Sketch::new();
    let unread = sketch.leaf(64);
    let x = sketch.leaf(64);
    let a = sketch.node(64, &[x]);
    sketch.node(64, &[a]);
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!(live_range(&found, unread), 0..2);
}

#[test]
fn unused_node_stays() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let unread = sketch.node(64, &[x]);
    let a = sketch.node(64, &[x]);
    let last = sketch.node(64, &[a]);
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!((live_range(&found, unread), live_range(&found, last)), (0..3, 2..3));
}

#[test]
fn view_keeps_its_root_through_the_last_use_of_the_view() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let root = sketch.node(64, &[x]);
    let view = sketch.view(root, 0, 32);
    let a = sketch.node(64, &[root]);
    let b = sketch.node(32, &[view]);
    sketch.node(64, &[a, b]);
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!(live_range(&found, root), 0..4);
}

#[test]
fn unused_view_keeps_its_root_to_the_end() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let root = sketch.node(64, &[x]);
    sketch.view(root, 0, 32);
    let a = sketch.node(64, &[root]);
    sketch.node(64, &[a]);
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!(live_range(&found, root), 0..4);
}

#[test]
fn view_that_is_a_marker_keeps_nothing() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let root = sketch.node(64, &[x]);
    let view = sketch.view(root, 0, 32);
    sketch.draft(view).tensor.op = Op::None;
    let a = sketch.node(64, &[root]);
    sketch.node(64, &[a]);
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!(live_range(&found, root), 0..3);
    sketch.plan(Rules::ALL);
}

#[test]
fn inputs_are_allocated_in_the_order_of_their_first_use() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let [early, late] = [(); 2].map(|()| sketch.add(List::None, 64, &[]));
    let a = sketch.node(64, &[x, late]);
    let node = sketch.node(64, &[a]);
    sketch.node(64, &[node, early]);
    for input in [early, late, node] {
        sketch.flag(input, Flags::INPUT);
    }
    let found = sketch.live_ranges(Rules::ALL);
    let blocks = [x, late, node, early, a].map(|id| allocation(&found, id).block);
    assert_eq!(blocks, [0, 1, 2, 3, 4]);
}

#[test]
fn view_that_is_in_no_list_keeps_its_root_too() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let root = sketch.node(64, &[x]);
    let view = sketch.unlisted_view(root, 0, 32);
    let a = sketch.node(64, &[root]);
    let b = sketch.node(32, &[view]);
    let c = sketch.node(64, &[a, b]);
    sketch.node(64, &[c]);
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!(live_range(&found, root), 0..3);
    sketch.plan(Rules::ALL);
}

#[test]
fn marker_before_the_def_allocates_early_and_frees_nothing() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let marker = sketch.marker(&[]);
    let a = sketch.node(64, &[x]);
    let late = sketch.node(64, &[a]);
    let unread = sketch.node(64, &[late]);
    let last = sketch.node(64, &[late]);
    sketch.draft(marker).sources = vec![late, unread];
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!(live_range(&found, late), 0..5);
    assert_eq!(live_range(&found, unread), 0..5, "read by the marker alone, so no use ends it");
    assert_eq!(live_range(&found, last), 4..5);
    sketch.plan(Rules::ALL);
}

#[test]
fn view_that_only_earlier_nodes_use_does_not_keep_its_root() {
    for (op, end) in [(Op::View, 3), (Op::Cpy, 5)] {
        let mut sketch = Sketch::new();
        let x = sketch.leaf(64);
        let root = sketch.node(64, &[x]);
        let marker = sketch.marker(&[]);
        let view = sketch.view(root, 0, 32);
        let a = sketch.node(64, &[x]);
        sketch.node(64, &[a]);
        sketch.draft(view).tensor.op = op;
        sketch.draft(marker).sources = vec![view];
        let found = sketch.live_ranges(Rules::ALL);
        assert_eq!(live_range(&found, root), 0..end, "{op:?}: only written memory may be read after the graph");
        sketch.plan(Rules::ALL);
    }
}

#[test]
fn marker_after_the_def_keeps_it_live() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let a = sketch.node(64, &[x]);
    let b = sketch.node(64, &[a]);
    sketch.marker(&[a]);
    sketch.node(64, &[b]);
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!((live_range(&found, a), live_range(&found, b)), (0..3, 1..4));
}

#[test]
fn node_that_is_its_own_source_uses_itself() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let cast = sketch.in_place(64, &[x]);
    sketch.draft(cast).sources.push(cast);
    let a = sketch.node(64, &[cast]);
    sketch.node(64, &[a]);
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!((live_range(&found, x), live_range(&found, cast)), (0..1, 0..2));
    assert_eq!(allocation(&found, cast).in_place_of, None);
    sketch.plan(Rules::ALL);
}

#[test]
fn external_tensors_and_their_views_get_no_memory() {
    let mut sketch = Sketch::new();
    let weights = sketch.leaf(64);
    let view = sketch.view(weights, 0, 32);
    let x = sketch.leaf(64);
    let a = sketch.in_place(64, &[weights, x]);
    let cache = sketch.node(64, &[a, view]);
    for id in [weights, cache] {
        sketch.draft(id).tensor.external = true;
    }
    let found = sketch.live_ranges(Rules::ALL);
    let allocations = [weights, view, cache].map(|id| found.allocations[id as usize]);
    assert_eq!(allocations, [None; 3]);
    assert_eq!(allocation(&found, a).in_place_of, Some(x), "external memory is not overwritten");
    sketch.plan(Rules::ALL);
}

#[test]
fn unlisted_source_gets_the_buffer_of_its_first_user() {
    let mut sketch = Sketch::with_buffers(&[BUFFER, BUFFER]);
    let x = sketch.leaf(64);
    let [early, late] = [(); 2].map(|()| sketch.add(List::None, 64, &[]));
    sketch.flag(late, Flags::INPUT);
    let a = sketch.node(64, &[x, early]);
    let b = sketch.node(64, &[a, early, late]);
    sketch.draft(b).buffer = 1;
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!([x, early, late, a, b].map(|id| allocation(&found, id).buffer), [0, 0, 1, 0, 1]);
    assert_eq!((live_range(&found, early), live_range(&found, late)), (0..2, 0..2));
}

#[test]
fn graph_without_nodes_takes_one_step() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!(live_range(&found, x), 0..1);
    assert_eq!(Sketch::new().live_ranges(Rules::ALL).blocks[0].blocks(), []);
}

#[test]
fn tail_of_a_larger_in_place_source_is_freed() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let larger = sketch.node(64, &[x]);
    let smaller = sketch.in_place(64, &[larger]);
    let other = sketch.node(64, &[smaller]);
    sketch.node(64, &[smaller, other]);
    sketch.draft(larger).size = 120;
    let found = sketch.live_ranges(Rules::GGML);
    assert_eq!(allocation(&found, smaller).block, allocation(&found, larger).block);
    let block = allocation(&found, larger).block;
    assert_eq!(found.blocks[0].shrinks(), [Shrink { block, step: 2, size: 64 }]);
    assert_eq!(found.blocks[0].blocks()[block as usize].size, 128);
}

/// Backends fuse a normalization with the product after it, which then reads the source of the normalization.
#[test]
fn source_outlasts_its_last_use_by_a_step_where_nothing_is_computed_in_place() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let norm = sketch.in_place(64, &[x]);
    let product = sketch.in_place(64, &[norm]);
    let a = sketch.node(64, &[product]);
    sketch.node(64, &[a]);
    let found = sketch.live_ranges(Rules::NONE);
    assert_eq!([x, norm, product, a].map(|id| live_range(&found, id)), [0..2, 0..3, 1..4, 2..4]);
}
