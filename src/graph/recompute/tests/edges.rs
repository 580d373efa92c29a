//! Graphs that cannot be recomputed, and limits.

use crate::graph::Flags;
use crate::graph::NotChanged;
use crate::graph::tests::sketch::Sketch;

use super::values::assert_correct;
use super::{Case, RULES, chain};

#[test]
fn graphs_without_a_loss_or_a_backward_pass_are_refused() {
    let search = |sketch: Sketch| Case::new(sketch).search(RULES, 0, 1000, &mut |_| true).err();
    assert_eq!(search(Sketch::new()), Some(NotChanged::NoLoss));
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    sketch.flag(x, Flags::LOSS);
    let y = sketch.node(64, &[x]);
    assert_eq!(search(sketch), Some(NotChanged::NoLoss));
    let mut sketch = Sketch::new();
    assert_eq!((sketch.leaf(64), sketch.node(64, &[x])), (x, y));
    sketch.flag(y, Flags::LOSS);
    assert_eq!(search(sketch), Some(NotChanged::NoBackward));
}

#[test]
fn chains_need_less_with_any_effort_and_stay_where_they_fit() {
    let case = Case::new(chain(40));
    for effort in [0, 1, 1000, 1_000_000, u64::MAX / 1_000_000_000_000] {
        let found = case.search(RULES, 0, effort, &mut |_| true).expect("a training graph");
        assert!(found.after.bytes < found.before.bytes / 2, "effort {effort}: {:?}", found.after);
        assert_correct(&case, &found, RULES);
        let same = case.search(RULES, found.after.bytes, effort, &mut |_| true).expect("a training graph");
        assert!(same.after.bytes <= found.after.bytes, "effort {effort}: the smallest is not found again");
    }
    for budget in [case.given_bytes(RULES), u64::MAX] {
        let found = case.recomputed(budget);
        assert!(found.after == found.before && found.again().count() == 0);
        assert_correct(&case, &found, RULES);
    }
}

#[test]
fn search_is_cancelled_by_any_call() {
    let case = Case::new(chain(40));
    for last in [1, 2, 10, 100] {
        let mut calls = 0;
        let mut progress = |_| {
            calls += 1;
            calls < last
        };
        assert_eq!(case.search(RULES, 0, 1_000_000, &mut progress).err(), Some(NotChanged::Cancelled));
        assert_eq!(calls, last);
    }
}

/// The copy to memory of the program comes last, and could run right after the forward result that it reads.
#[test]
fn nodes_that_nothing_depends_on_wait_for_copies_of_their_sources() {
    let mut sketch = chain(20);
    let statistics = sketch.leaf(1024);
    sketch.draft(statistics).tensor.external = true;
    (1..15).for_each(|result| _ = sketch.copy(result, statistics, 1024));
    let last = sketch.node(16, &[statistics]);
    let case = Case::new(sketch);
    let found = case.recomputed(0);
    assert!(found.again().count() > 0 && found.items.last().is_some_and(|item| item.step + 1 >= last - 1));
    assert_correct(&case, &found, RULES);
}

#[test]
fn nodes_that_wait_for_nothing_still_run() {
    let mut sketch = chain(20);
    sketch.view(0, 0, 64);
    let alone = sketch.drafts.len() - 1;
    sketch.node(16, &[0]);
    let case = Case::new(sketch);
    let found = case.recomputed(0);
    assert!(found.edited.graph.nodes().iter().any(|&node| found.edited.origins[node as usize] as usize == alone));
    assert_correct(&case, &found, RULES);
}

#[test]
fn tensors_that_are_kept_are_not_computed_again() {
    let mut case = Case::new(chain(20));
    case.kept.fill(true);
    assert_eq!(case.recomputed(0).again().count(), 0);
}

#[test]
fn tensors_that_programs_fill_or_read_are_not_computed_again() {
    for flag in [1, 2, 4, 8] {
        let mut sketch = chain(20);
        (1..=20).for_each(|result| sketch.flag(result, Flags(flag)));
        let found = Case::new(sketch).recomputed(0);
        assert_eq!(found.again().count(), 0, "with the flag {flag}");
    }
}

#[test]
fn retained_tensors_are_not_computed_again() {
    let mut sketch = chain(20);
    let loss = 21;
    (1..loss).for_each(|result| sketch.retain(result, Some(loss)));
    assert_eq!(Case::new(sketch).recomputed(0).again().count(), 0);
}
