//! Budgets: met with no finer tiles than needed, or told with the least that can be met.

use crate::graph::{NotChanged, Rules};
use crate::testing::Random;

use super::super::{TilingEffort, TilingLimits};
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
        let least = case.tile(Rules::ALL, 0).after;
        assert!(case.tile(Rules::ALL, least).after <= least);
        let below = case.tile(Rules::ALL, least - 1);
        missed += usize::from(below.after > least - 1);
        assert!(below.after <= least, "less is known: {} of {least}", below.after);
    }
    assert!(missed > 30, "only {missed} budgets are below what can be met");
}

/// Layers repeat each other, so the result for one is used for the others.
#[test]
fn equal_layers_are_tiled_into_as_many_tiles() {
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
    let found = case.tile(Rules::ALL, whole / 2);
    assert!(found.after <= whole / 2);
    let tiles: Vec<u32> = found.tiled.iter().map(|tiled| tiled.tiles).collect();
    assert_eq!(tiles, [tiles[0]; 6]);
}

#[test]
fn graph_that_fits_is_unchanged() {
    let case = attention();
    let found = case.tile(Rules::ALL, case.given_bytes(Rules::ALL));
    assert_eq!((found.tiled.len(), found.added_nodes()), (0, 0));
}

#[test]
fn scores_are_tiled_into_as_few_tiles_as_the_budget_allows() {
    let case = attention();
    assert_eq!(case.given_bytes(Rules::ALL), (64 + 4) << 10);
    for (budget, tiles) in [(36 << 10, 2), (20 << 10, 4)] {
        let found = case.tile(Rules::ALL, budget);
        assert_eq!(found.tiled.iter().map(|tiled| tiled.tiles).collect::<Vec<_>>(), [tiles]);
        assert_eq!(found.after, budget);
    }
}

#[test]
fn tiles_keep_all_threads_busy() {
    let case = attention();
    let limits = |threads| TilingLimits { budget: 0, threads, effort: TilingEffort(100_000) };
    let least = |threads| case.search(Rules::ALL, limits(threads), &mut |_| true).map(|found| found.after);
    let (one, many) = (least(1).expect("a graph"), least(32).expect("a graph"));
    assert!(one < many, "{one} bytes with one thread, {many} with 32");
    assert_eq!(least(64), Ok(68 << 10), "tiles would be too small");
}

#[test]
fn search_without_effort_leaves_the_graph_as_it_is() {
    let case = attention();
    let limits = TilingLimits { budget: 0, threads: 1, effort: TilingEffort(0) };
    let found = case.search(Rules::ALL, limits, &mut |_| true).expect("a graph");
    assert_eq!((found.after, found.added_nodes()), (found.before, 0));
}

#[test]
fn search_can_be_cancelled() {
    let case = attention();
    let found = case.search(Rules::ALL, TilingLimits::of(1), &mut |_| false);
    assert_eq!(found.map(|found| found.after), Err(NotChanged::Cancelled));
}
