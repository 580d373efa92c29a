//! Which sources nodes are computed in place of.

use crate::graph::{Flags, InPlace, Rules, Slots, TensorId, View};

use super::sketch::{BUFFER, Sketch, allocation, live_range};

/// Returns the source that a node is computed in place of.
fn in_place_source(sketch: &Sketch, node: TensorId, rules: Rules) -> Option<TensorId> {
    let found = sketch.live_ranges(rules);
    let allocation = allocation(&found, node);
    if let Some(source) = allocation.in_place_of {
        let root = sketch.graph().root(source);
        assert_eq!(found.allocations[root as usize].map(|allocation| allocation.block), Some(allocation.block));
    }
    sketch.plan(rules);
    allocation.in_place_of
}

#[test]
fn node_is_computed_in_place_of_a_source_at_its_last_use() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let a = sketch.node(64, &[x]);
    let b = sketch.in_place(64, &[a]);
    sketch.node(64, &[b]);
    for rules in [Rules::GGML, Rules::ALL] {
        assert_eq!(in_place_source(&sketch, b, rules), Some(a));
        assert_eq!(live_range(&sketch.live_ranges(rules), a), 0..3, "the block goes on as the node's");
    }
    assert_eq!(in_place_source(&sketch, b, Rules::NONE), None);
}

#[test]
fn first_possible_source_is_used() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(32);
    let [small, read_later, first, second] = [32, 64, 64, 64].map(|size| sketch.node(size, &[x]));
    let b = sketch.in_place(64, &[small, read_later, first, second]);
    sketch.node(64, &[b, read_later]);
    assert_eq!(in_place_source(&sketch, b, Rules::ALL), Some(first));
}

#[test]
fn computed_source_is_used_before_a_leaf_where_the_rules_want_it() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let a = sketch.node(64, &[x]);
    let b = sketch.in_place(64, &[x, a]);
    sketch.node(64, &[b]);
    let leafs_last = Rules { leafs_last: true, ..Rules::GGML };
    assert_eq!(in_place_source(&sketch, b, leafs_last), Some(a));
    assert_eq!(in_place_source(&sketch, b, Rules::GGML), Some(x), "what ggml-alloc does");
    assert_eq!(in_place_source(&sketch, b, Rules::ALL), Some(x), "the oldest");
    let mut alone = Sketch::new();
    let (x, y) = (alone.leaf(64), alone.leaf(64));
    let sum = alone.in_place(64, &[x, y]);
    alone.node(64, &[sum]);
    assert_eq!(in_place_source(&alone, sum, leafs_last), Some(x), "there is no other");
}

#[test]
fn other_operations_are_not_computed_in_place() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let a = sketch.node(64, &[x]);
    let b = sketch.node(64, &[a]);
    assert_eq!(in_place_source(&sketch, b, Rules::ALL), None);
}

#[test]
fn source_in_two_slots_is_not_overwritten() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let sum = sketch.in_place(64, &[x, x]);
    sketch.node(64, &[sum]);
    assert_eq!(in_place_source(&sketch, sum, Rules::ALL), None);
    assert_eq!(live_range(&sketch.live_ranges(Rules::ALL), x), 0..1);
}

#[test]
fn source_is_overwritten_by_its_last_user() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let first = sketch.in_place(64, &[x]);
    let second = sketch.in_place(64, &[x]);
    sketch.node(64, &[first, second]);
    assert_eq!(in_place_source(&sketch, first, Rules::ALL), None);
    assert_eq!(in_place_source(&sketch, second, Rules::ALL), Some(x));
}

#[test]
fn output_is_never_overwritten() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let a = sketch.node(64, &[x]);
    let b = sketch.in_place(64, &[a]);
    sketch.node(64, &[b]);
    sketch.flag(a, Flags::OUTPUT);
    assert_eq!(in_place_source(&sketch, b, Rules::ALL), None);
}

#[test]
fn output_may_be_computed_in_place_and_stays() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let a = sketch.in_place(64, &[x]);
    let b = sketch.in_place(64, &[a]);
    sketch.node(64, &[b]);
    sketch.flag(a, Flags::OUTPUT);
    assert_eq!(in_place_source(&sketch, a, Rules::ALL), Some(x));
    assert_eq!(live_range(&sketch.live_ranges(Rules::ALL), a), 0..3);
}

#[test]
fn source_of_another_layout_is_not_overwritten() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let a = sketch.node(64, &[x]);
    let b = sketch.in_place(64, &[a]);
    let layout = sketch.draft(b).layout;
    let mut others = [layout; 3];
    others[0].element = 1;
    others[1].ne[1] = 2;
    others[2].nb[1] = 128;
    for other in others {
        sketch.draft(b).layout = other;
        assert_eq!(in_place_source(&sketch, b, Rules::ALL), None, "{other:?}");
    }
}

#[test]
fn source_that_is_too_small_is_not_used() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let a = sketch.node(64, &[x]);
    let b = sketch.in_place(64, &[a]);
    sketch.draft(b).size = 65;
    assert_eq!(in_place_source(&sketch, b, Rules::ALL), None);
    sketch.draft(a).size = 65;
    assert_eq!(in_place_source(&sketch, b, Rules::ALL), Some(a));
}

#[test]
fn source_with_a_view_is_not_overwritten() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let a = sketch.node(64, &[x]);
    let view = sketch.view(a, 0, 64);
    let b = sketch.in_place(64, &[a]);
    sketch.node(64, &[b, view]);
    assert_eq!(in_place_source(&sketch, b, Rules::ALL), None);
}

#[test]
fn root_and_its_view_as_two_sources_are_not_overwritten() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let a = sketch.node(64, &[x]);
    let view = sketch.view(a, 0, 64);
    for sources in [[a, view], [view, a]] {
        let b = sketch.in_place(64, &sources);
        assert_eq!(in_place_source(&sketch, b, Rules::ALL), None);
        sketch.drafts.pop();
    }
}

#[test]
fn node_in_place_stays_in_the_buffer_of_its_source() {
    let mut sketch = Sketch::with_buffers(&[BUFFER, BUFFER]);
    let x = sketch.leaf(64);
    let a = sketch.node(64, &[x]);
    let b = sketch.in_place(64, &[a]);
    sketch.draft(b).buffer = 1;
    assert_eq!(in_place_source(&sketch, b, Rules::ALL), Some(a));
    assert_eq!(allocation(&sketch.live_ranges(Rules::ALL), b).buffer, 0);
}

/// A root, a view of all of it, and a node that is the last use of the view.
fn through_view() -> (Sketch, TensorId, TensorId, TensorId) {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let root = sketch.node(64, &[x]);
    let view = sketch.view(root, 0, 64);
    let b = sketch.in_place(64, &[view]);
    sketch.node(64, &[b]);
    (sketch, root, view, b)
}

#[test]
fn root_is_overwritten_through_a_view_unless_the_rules_are_those_of_ggml() {
    let (sketch, _, view, b) = through_view();
    assert_eq!(in_place_source(&sketch, b, Rules::ALL), Some(view));
    assert_eq!(in_place_source(&sketch, b, Rules::GGML), None);
    assert!(sketch.live_ranges(Rules::ALL).beyond_ggml);
    assert!(!sketch.live_ranges(Rules::GGML).beyond_ggml);
}

#[test]
fn tail_of_a_larger_root_is_freed() {
    let (mut sketch, root, view, b) = through_view();
    sketch.draft(root).size = 128;
    assert_eq!(in_place_source(&sketch, b, Rules::ALL), Some(view));
    assert_eq!(sketch.live_ranges(Rules::ALL).blocks[0].shrinks().len(), 1);
}

#[test]
fn root_is_not_overwritten_through_a_view_beyond_its_start() {
    let (mut sketch, root, view, b) = through_view();
    sketch.draft(root).size = 128;
    sketch.draft(view).tensor.view = Some(View { root, offset: 16 });
    assert_eq!(in_place_source(&sketch, b, Rules::ALL), None);
}

#[test]
fn root_with_another_use_is_not_overwritten() {
    let (mut sketch, root, _, b) = through_view();
    sketch.node(64, &[root]);
    assert_eq!(in_place_source(&sketch, b, Rules::ALL), None);
}

#[test]
fn root_with_another_view_is_not_overwritten() {
    let (mut sketch, root, _, b) = through_view();
    let other = sketch.unlisted_view(root, 0, 16);
    sketch.node(16, &[other]);
    assert_eq!(in_place_source(&sketch, b, Rules::ALL), None);
}

#[test]
fn root_of_a_view_with_another_use_is_not_overwritten() {
    let (mut sketch, _, view, b) = through_view();
    sketch.node(64, &[view]);
    assert_eq!(in_place_source(&sketch, b, Rules::ALL), None);
}

#[test]
fn root_that_is_an_output_is_not_overwritten() {
    let (mut sketch, root, view, b) = through_view();
    sketch.flag(root, Flags::OUTPUT);
    assert_eq!(in_place_source(&sketch, b, Rules::ALL), None);
    let (mut sketch, ..) = through_view();
    sketch.flag(view, Flags::OUTPUT);
    assert_eq!(in_place_source(&sketch, b, Rules::ALL), None);
}

#[test]
fn root_in_another_buffer_is_not_overwritten() {
    let (mut sketch, _, _, b) = through_view();
    sketch.buffers.push(BUFFER);
    sketch.draft(b).buffer = 1;
    assert_eq!(in_place_source(&sketch, b, Rules::ALL), None);
}

#[test]
fn operations_are_computed_in_place_only_where_the_rule_for_their_kind_is_on() {
    let kinds: [(InPlace, Rules); 4] = [
        (InPlace::Listed(Slots::FIRST), Rules::GGML),
        (InPlace::RowByRow(Slots::FIRST), Rules { rows: true, ..Rules::GGML }),
        (InPlace::Scan(Slots::FIRST), Rules { scans: true, ..Rules::GGML }),
        (InPlace::Copy, Rules { copies: true, ..Rules::GGML }),
    ];
    for (kind, _) in kinds {
        let mut sketch = Sketch::new();
        let x = sketch.leaf(64);
        let a = sketch.node(64, &[x]);
        let b = sketch.in_place(64, &[a]);
        sketch.node(64, &[b]);
        sketch.draft(b).tensor.in_place = kind;
        for (own, rules) in kinds {
            let is_allowed = own == kind || kind.is_listed();
            assert_eq!(in_place_source(&sketch, b, rules), is_allowed.then_some(a), "{kind:?} with {rules}");
        }
        assert_eq!(in_place_source(&sketch, b, Rules { in_place: false, ..Rules::ALL }), None, "{kind:?}");
    }
}
