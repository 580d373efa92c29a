//! Runs in styles drawn by lot, and the rounds that are made of them.

use super::super::columns::Columns;
use super::super::draw::Draw;
use super::super::tree::{End, Tree};
use super::{AMPLE, assert_fits, optimum, problem, random_problem};
use crate::placement::search::{Effort, Least, minimize};
use crate::placement::{BestFit, Bytes, Problem, Strategy, lower_bound, validate};
use crate::testing::Random;

/// Enough for rounds.
const MUCH: Effort = Effort::units(5_000_000_000);

fn columns(problem: &Problem) -> Columns {
    Columns::of(problem, AMPLE).expect("it is small")
}

#[test]
fn drawn_runs_agree_with_brute_force() {
    let mut random = Random::new(1);
    for seed in 0..1000 {
        let problem = random_problem(&mut random);
        let columns = columns(&problem);
        let optimum = columns.units(optimum(&problem));
        for capacity in columns.load()..optimum + 2 {
            let mut tree = Tree::new(&columns, capacity);
            let end = tree.run_drawn(Draw::new(&columns, capacity, seed), 10_000_000);
            assert_eq!(end, if capacity < optimum { End::Infeasible } else { End::Found }, "{problem:?}");
            if end == End::Found {
                let placement = columns.placement(&problem, tree.offsets());
                assert_eq!(validate(&problem, &placement), Ok(()), "{problem:?}");
                assert!(columns.peak(tree.offsets()) <= capacity, "{problem:?}");
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
        let Least { placement, proven } = minimize(&problem, known, MUCH);
        assert!(proven, "{problem:?}");
        if let Some(placement) = &placement {
            assert_fits(&problem, optimum, placement);
        }
        assert_eq!(placement.map_or(known, |placement| placement.size()), optimum, "{problem:?}");
    }
}

/// One of MiniMalloc's problems.
fn hard_problem() -> Problem {
    let numbers = |line: &str| line.split(',').map(|number| number.parse().expect("a number")).collect();
    let rows: Vec<Vec<u32>> = include_str!("../minimalloc/H.1048576.csv").lines().skip(1).map(numbers).collect();
    problem(&rows.iter().map(|row| (Bytes::from(row[3]), row[1], row[2])).collect::<Vec<_>>())
}

#[test]
fn drawn_runs_end_when_their_work_is_done() {
    let problem = hard_problem();
    let columns = columns(&problem);
    let capacity = columns.units(lower_bound(&problem));
    let mut tree = Tree::new(&columns, capacity);
    for seed in 0..20 {
        let (before, work) = (tree.work(), 20_000);
        let end = tree.run_drawn(Draw::new(&columns, capacity, seed), work);
        assert_eq!(end, End::OutOfEffort, "so little work is not enough to place all blocks");
        // A step that has begun is finished.
        assert!(tree.work() - before < 5 * work, "{}", tree.work() - before);
    }
}

#[test]
fn a_seed_always_draws_the_same_run_and_another_seed_another() {
    let problem = hard_problem();
    let columns = columns(&problem);
    let capacity = columns.units(lower_bound(&problem) / 8 * 9);
    let run = |seed| {
        let mut tree = Tree::new(&columns, capacity);
        let end = tree.run_drawn(Draw::new(&columns, capacity, seed), 5_000_000);
        (end, tree.work(), tree.offsets().to_vec())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
