//! Runs with random heuristics, and rounds of them.

use super::super::columns::Columns;
use super::super::randomized::RandomHeuristic;
use super::super::tree::{RunEnd, Tree};
use super::{AMPLE, assert_fits, optimum, problem, random_problem};
use crate::placement::Effort;
use crate::placement::search::{Minimum, minimize};
use crate::placement::{BestFit, Bytes, Problem, Strategy, lower_bound, validate};
use crate::testing::Random;

/// Enough effort for rounds.
const MUCH: Effort = Effort::units(5_000_000_000);

fn columns(problem: &Problem) -> Columns {
    Columns::of(problem, AMPLE).expect("a small problem")
}

#[test]
fn random_runs_agree_with_brute_force() {
    let mut random = Random::new(1);
    for seed in 0..1000 {
        let problem = random_problem(&mut random);
        let columns = columns(&problem);
        let optimum = columns.units(optimum(&problem));
        for capacity in columns.lower_bound()..optimum + 2 {
            let mut tree = Tree::new(&columns, capacity);
            let end = tree.run_randomly(RandomHeuristic::new(&columns, capacity, seed), 10_000_000);
            assert_eq!(end, if capacity < optimum { RunEnd::Infeasible } else { RunEnd::Found }, "{problem:?}");
            if end == RunEnd::Found {
                let placement = columns.placement(&problem, tree.offsets());
                assert_eq!(validate(&problem, &placement), Ok(()), "{problem:?}");
                assert!(columns.height(tree.offsets()) <= capacity, "{problem:?}");
            }
        }
    }
}

#[test]
fn rounds_find_the_least_capacity() {
    let mut random = Random::new(2);
    for _ in 0..500 {
        let problem = random_problem(&mut random);
        let (optimum, known) = (optimum(&problem), BestFit.place(&problem).size());
        let Minimum { placement, proven } = minimize(&problem, known, MUCH);
        assert!(proven, "{problem:?}");
        if let Some(placement) = &placement {
            assert_fits(&problem, optimum, placement);
        }
        assert_eq!(placement.map_or(known, |placement| placement.size()), optimum, "{problem:?}");
    }
}

/// Returns one of MiniMalloc's challenging problems.
fn hard_problem() -> Problem {
    let numbers = |line: &str| line.split(',').map(|number| number.parse().expect("a number")).collect();
    let rows: Vec<Vec<u32>> = include_str!("minimalloc/H.1048576.csv").lines().skip(1).map(numbers).collect();
    problem(&rows.iter().map(|row| (Bytes::from(row[3]), row[1], row[2])).collect::<Vec<_>>())
}

#[test]
fn random_runs_end_when_their_work_is_done() {
    let problem = hard_problem();
    let columns = columns(&problem);
    let capacity = columns.units(lower_bound(&problem));
    let mut tree = Tree::new(&columns, capacity);
    for seed in 0..20 {
        let (before, work) = (tree.work(), 20_000);
        let end = tree.run_randomly(RandomHeuristic::new(&columns, capacity, seed), work);
        assert_eq!(end, RunEnd::OutOfEffort, "so little work is not enough to place all blocks");
        // A move that has started is finished.
        assert!(tree.work() - before < 5 * work, "{}", tree.work() - before);
    }
}

#[test]
fn each_seed_gives_its_own_run() {
    let problem = hard_problem();
    let columns = columns(&problem);
    let capacity = columns.units(lower_bound(&problem) / 8 * 9);
    let run = |seed| {
        let mut tree = Tree::new(&columns, capacity);
        let end = tree.run_randomly(RandomHeuristic::new(&columns, capacity, seed), 5_000_000);
        (end, tree.work(), tree.offsets().to_vec())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
