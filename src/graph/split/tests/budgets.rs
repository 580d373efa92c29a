//! Budgets: met with no finer parts than needed, or told with the least that can be met.

use crate::graph::Rules;
use crate::testing::Random;

use super::super::{NotSplit, SplitEffort, SplitLimits};
use super::case::Case;
use super::random::random_case;

/// Scores of 64 x 64 x 4 elements, 64 KiB, and a result of 4 KiB.
fn attention() -> Case {
    let mut case = Case::new();
    let [key, query] = [0, 1].map(|_| case.leaf([4, 64, 4, 1]));
    let value = case.leaf([64, 4, 4, 1]);
    let scores = case.mul_mat(key, query);
    let weights = case.node("SOFT_MAX", [64, 64, 4, 1], &[scores]);
    let result = case.mul_mat(value, weights);
    case.node("UNARY", [4, 64, 4, 1], &[result]);
    case
}

#[test]
fn least_bytes_that_are_told_can_be_met() {
    let mut random = Random::new(73);
    let mut missed = 0;
    for _ in 0..60 {
        let case = random_case(&mut random);
        let least = case.split(Rules::ALL, 0).after;
        assert!(case.split(Rules::ALL, least).after <= least);
        let below = case.split(Rules::ALL, least - 1);
        missed += usize::from(below.after > least - 1);
        assert!(below.after <= least, "less is known: {} of {least}", below.after);
    }
    assert!(missed > 30, "only {missed} budgets are below what can be met");
}

/// Layers repeat each other, so the result for one is used for the others.
#[test]
fn equal_layers_are_cut_into_as_many_parts() {
    let mut case = Case::new();
    let mut layer = case.leaf([4, 64, 4, 1]);
    for _ in 0..6 {
        let [key, value] = [[4, 64, 4, 1], [64, 4, 4, 1]].map(|shape| case.leaf(shape));
        let scores = case.mul_mat(key, layer);
        let weights = case.node("SOFT_MAX", [64, 64, 4, 1], &[scores]);
        layer = case.mul_mat(value, weights);
    }
    case.node("UNARY", [4, 64, 4, 1], &[layer]);
    let whole = case.given_bytes(Rules::ALL);
    let found = case.split(Rules::ALL, whole / 2);
    assert!(found.after <= whole / 2);
    let parts: Vec<u32> = found.splits.iter().map(|split| split.parts).collect();
    assert_eq!(parts, [parts[0]; 6]);
}

#[test]
fn graph_that_fits_is_unchanged() {
    let case = attention();
    let found = case.split(Rules::ALL, case.given_bytes(Rules::ALL));
    assert_eq!((found.splits.len(), found.added_nodes()), (0, 0));
}

#[test]
fn scores_are_cut_into_as_few_parts_as_the_budget_allows() {
    let case = attention();
    assert_eq!(case.given_bytes(Rules::ALL), (64 + 4) << 10);
    for (budget, parts) in [(36 << 10, 2), (20 << 10, 4)] {
        let found = case.split(Rules::ALL, budget);
        assert_eq!(found.splits.iter().map(|split| split.parts).collect::<Vec<_>>(), [parts]);
        assert_eq!(found.after, budget);
    }
}

#[test]
fn parts_keep_all_threads_busy() {
    let case = attention();
    let limits = |threads| SplitLimits { budget: 0, threads, effort: SplitEffort(100_000) };
    let least = |threads| case.search(Rules::ALL, limits(threads), &mut |_| true).map(|found| found.after);
    let (one, many) = (least(1).expect("a graph"), least(32).expect("a graph"));
    assert!(one < many, "{one} bytes with one thread, {many} with 32");
    assert_eq!(least(64), Ok(68 << 10), "parts would be too small");
}

#[test]
fn search_without_effort_leaves_the_graph_as_it_is() {
    let case = attention();
    let limits = SplitLimits { budget: 0, threads: 1, effort: SplitEffort(0) };
    let found = case.search(Rules::ALL, limits, &mut |_| true).expect("a graph");
    assert_eq!((found.after, found.added_nodes()), (found.before, 0));
}

#[test]
fn search_can_be_cancelled() {
    let case = attention();
    let found = case.search(Rules::ALL, SplitLimits::of(1), &mut |_| false);
    assert_eq!(found.map(|found| found.after), Err(NotSplit::Cancelled));
}
