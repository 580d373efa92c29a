//! The search against brute force, and at its limits.

mod randomized;

use std::collections::BTreeSet;

use super::{Minimum, Outcome, minimize, solve};
use crate::placement::{
    BestFit, Block, Bytes, Effort, Placement, Problem, Step, Strategy, Workspace, choose, lower_bound, validate,
};
use crate::testing::Random;

const UNIT: Bytes = 32;
const AMPLE: Effort = Effort::units(10_000_000);

/// Creates a problem of (size, first step, end step).
fn problem(blocks: &[(Bytes, Step, Step)]) -> Problem {
    let mut blocks = blocks.to_vec();
    blocks.sort_by_key(|&(_, first_step, _)| first_step);
    let mut problem = Problem::new(UNIT, None);
    for (size, first_step, end_step) in blocks {
        problem.add(Block { size, first_step, end_step });
    }
    problem
}

/// Creates blocks with equal live bytes at every step: when some end, others of the same total start. Such blocks are
/// hard to fit together.
fn random_problem(random: &mut Random) -> Problem {
    let (steps, largest) = (3 + random.below(14), 3 + random.below(3));
    let mut blocks: Vec<(Bytes, Step, Step)> = Vec::new();
    let mut live: Vec<(u32, Step)> = Vec::new();
    let mut free = 6 + random.below(4);
    for step in 0..steps {
        while free > 0 {
            let size = 1 + random.below(free.min(largest));
            free -= size;
            live.push((size, step));
        }
        for _ in 0..1 + random.below(3) {
            if let Some(last) = u32::try_from(live.len()).expect("few").checked_sub(1) {
                let (size, first_step) = live.swap_remove(random.below(last + 1) as usize);
                blocks.push((UNIT * u64::from(size), first_step, step + 1));
                free += size;
            }
        }
    }
    blocks.extend(live.into_iter().map(|(size, first_step)| (UNIT * u64::from(size), first_step, steps + 1)));
    let missing = if random.chance(20) { 4 } else { 0 };
    blocks.retain(|_| !random.chance(missing));
    problem(&blocks)
}

/// Returns `true` if there is a placement of `units` units. Sweeps over the steps with the set of all possible
/// placements of the live blocks.
fn fits(problem: &Problem, units: Bytes) -> bool {
    let blocks: Vec<&Block> = problem.blocks().iter().filter(|block| block.size > 0).collect();
    let mut placements = BTreeSet::from([Vec::new()]);
    for block in blocks {
        let mut next = BTreeSet::new();
        for placement in placements {
            let mut live: Vec<(Step, Bytes, Bytes)> = placement;
            live.retain(|&(end_step, ..)| end_step > block.first_step);
            let height = block.size / UNIT;
            for offset in 0..=units.saturating_sub(height) {
                let free = live.iter().all(|&(_, start, end)| end <= offset || offset + height <= start);
                if free && offset + height <= units {
                    let mut with = live.clone();
                    with.push((block.end_step, offset, offset + height));
                    with.sort_unstable();
                    next.insert(with);
                }
            }
        }
        placements = next;
    }
    !placements.is_empty()
}

fn optimum(problem: &Problem) -> Bytes {
    let units = (lower_bound(problem) / UNIT..).find(|&units| fits(problem, units));
    UNIT * units.expect("all blocks fit on top of each other")
}

fn assert_fits(problem: &Problem, capacity: Bytes, placement: &Placement) {
    assert_eq!(validate(problem, placement), Ok(()), "{problem:?}");
    assert!(placement.size() <= capacity && placement.chunks.len() <= 1, "{problem:?}");
}

#[test]
fn search_agrees_with_brute_force() {
    let mut random = Random::new(1);
    let mut above_bound = 0;
    for _ in 0..4000 {
        let problem = random_problem(&mut random);
        let optimum = optimum(&problem);
        above_bound += u32::from(optimum > lower_bound(&problem));
        for capacity in [optimum, optimum + 1, optimum + UNIT] {
            match solve(&problem, capacity, AMPLE) {
                Outcome::Found(placement) => assert_fits(&problem, capacity, &placement),
                other => panic!("{other:?}, but {optimum} is possible: {problem:?}"),
            }
        }
        for capacity in (lower_bound(&problem).saturating_sub(UNIT)..optimum).step_by(8) {
            assert_eq!(solve(&problem, capacity, AMPLE), Outcome::Infeasible, "{optimum} is least: {problem:?}");
        }
    }
    println!("{above_bound} optima are above the bound");
    assert!(above_bound >= 10, "only {above_bound} optima are above the bound: too easy");
}

#[test]
fn least_capacity_agrees_with_brute_force() {
    let mut random = Random::new(2);
    for _ in 0..1000 {
        let problem = random_problem(&mut random);
        let (optimum, known) = (optimum(&problem), BestFit.place(&problem).size());
        let Minimum { placement, proven } = minimize(&problem, known, AMPLE);
        assert!(proven, "{problem:?}");
        if let Some(placement) = &placement {
            assert_fits(&problem, known, placement);
        }
        assert_eq!(placement.map_or(known, |placement| placement.size()), optimum, "{problem:?}");
        let choice = choose(&problem, None, AMPLE, &mut Workspace::default());
        assert_fits(&problem, optimum, &choice.placement);
        assert!(choice.is_optimal(), "{problem:?}");
    }
}

#[test]
fn little_effort_never_gives_wrong_results() {
    let mut random = Random::new(3);
    for _ in 0..500 {
        let problem = random_problem(&mut random);
        let optimum = optimum(&problem);
        for effort in [0, 10, 100, 1000, 10_000].map(Effort::units) {
            for capacity in [optimum - UNIT, optimum, optimum + UNIT] {
                match solve(&problem, capacity, effort) {
                    Outcome::Found(placement) => assert_fits(&problem, capacity, &placement),
                    Outcome::Infeasible => assert!(capacity < optimum, "{problem:?}"),
                    Outcome::OutOfEffort => {}
                }
            }
            let choice = choose(&problem, None, effort, &mut Workspace::default());
            assert_eq!(validate(&problem, &choice.placement), Ok(()));
            assert!(!choice.is_optimal() || choice.placement.size() == optimum, "{problem:?}");
        }
    }
}

#[test]
fn same_problem_and_effort_give_the_same_result() {
    let mut random = Random::new(4);
    for _ in 0..100 {
        let problem = random_problem(&mut random);
        let capacity = lower_bound(&problem);
        for effort in [1000, 5000, 50_000].map(Effort::units) {
            assert_eq!(solve(&problem, capacity, effort), solve(&problem.clone(), capacity, effort));
            assert_eq!(minimize(&problem, 2 * capacity, effort), minimize(&problem.clone(), 2 * capacity, effort));
        }
    }
}

/// Creates a random problem in which some blocks shrink.
fn shrinking_problem(random: &mut Random) -> Problem {
    let mut problem = random_problem(random);
    let blocks = problem.blocks().to_vec();
    let mut shrinks: Vec<(Step, u32, Bytes)> = (0..)
        .zip(&blocks)
        .filter(|(_, block)| block.end_step - block.first_step > 1 && random.chance(30))
        .map(|(id, block)| (block.first_step + 1, id, block.size / UNIT / 2 * UNIT))
        .collect();
    shrinks.sort_unstable();
    shrinks.into_iter().for_each(|(step, id, size)| problem.shrink(id, step, size));
    problem
}

/// Splits each block that shrinks into one block for its head and one for its tail, which need not be adjacent.
fn in_pieces(problem: &Problem) -> Problem {
    let mut blocks = Vec::new();
    for (id, block) in (0..).zip(problem.blocks()) {
        match problem.shrinks().iter().find(|shrink| shrink.block == id) {
            Some(shrink) => {
                blocks.push((shrink.size, block.first_step, block.end_step));
                blocks.push((block.size - shrink.size, block.first_step, shrink.step));
            }
            None => blocks.push((block.size, block.first_step, block.end_step)),
        }
    }
    self::problem(&blocks)
}

#[test]
fn blocks_that_shrink_are_placed_and_no_false_proof_is_given() {
    let mut random = Random::new(5);
    let mut improved = 0;
    for _ in 0..500 {
        let problem = shrinking_problem(&mut random);
        let least = optimum(&in_pieces(&problem));
        let (bound, whole) = (lower_bound(&problem), BestFit.place(&problem).size());
        for capacity in (bound - UNIT..whole + UNIT).step_by(32) {
            match solve(&problem, capacity, AMPLE) {
                Outcome::Found(placement) => assert_fits(&problem, capacity, &placement),
                Outcome::Infeasible => assert!(capacity < least, "{problem:?}"),
                Outcome::OutOfEffort => {}
            }
        }
        let Minimum { placement, proven } = minimize(&problem, whole, AMPLE);
        improved += u32::from(placement.is_some());
        let size = placement.map_or(whole, |placement| placement.size());
        assert!(!proven || size == bound, "{problem:?}");
    }
    println!("{improved} placements improved");
    assert!(improved > 0);
}

#[test]
fn no_blocks_need_no_bytes() {
    let placement = Placement { locations: vec![], chunks: vec![] };
    assert_eq!(solve(&problem(&[]), 0, AMPLE), Outcome::Found(placement));
    assert_eq!(minimize(&problem(&[]), 0, AMPLE), Minimum { placement: None, proven: true });
}

#[test]
fn blocks_without_bytes_fit_anywhere() {
    let empty = problem(&[(0, 0, 2), (0, 1, 3)]);
    assert!(matches!(solve(&empty, 0, AMPLE), Outcome::Found(_)));
    let mixed = problem(&[(0, 0, 5), (64, 1, 3), (0, 2, 4), (32, 2, 5)]);
    assert!(matches!(solve(&mixed, 96, AMPLE), Outcome::Found(placement) if validate(&mixed, &placement).is_ok()));
    assert_eq!(solve(&mixed, 95, AMPLE), Outcome::Infeasible);
}

#[test]
fn one_block_needs_its_size() {
    let problem = problem(&[(64, 3, 4)]);
    assert!(matches!(solve(&problem, 64, AMPLE), Outcome::Found(placement) if placement.size() == 64));
    assert_eq!(solve(&problem, 63, AMPLE), Outcome::Infeasible);
    assert_eq!(solve(&problem, 0, AMPLE), Outcome::Infeasible);
}

#[test]
fn equal_blocks_are_tried_once() {
    // All 500! orders give the same placement.
    let same = problem(&[(32, 0, 3); 500]);
    assert!(matches!(solve(&same, 500 * 32, Effort::units(100_000)), Outcome::Found(_)));
    assert_eq!(solve(&same, 500 * 32 - 1, Effort::units(100_000)), Outcome::Infeasible);
}

/// Three of MiniMalloc's challenging problems.
#[test]
fn hard_problems_are_solved_at_the_lower_bound() {
    const FILES: [&str; 3] = [
        include_str!("minimalloc/B.1048576.csv"),
        include_str!("minimalloc/F.1048576.csv"),
        include_str!("minimalloc/H.1048576.csv"),
    ];
    for file in FILES {
        let numbers = |line: &str| line.split(',').map(|number| number.parse().expect("a number")).collect();
        let rows: Vec<Vec<Step>> = file.lines().skip(1).map(numbers).collect();
        let blocks: Vec<_> = rows.iter().map(|row| (Bytes::from(row[3]), row[1], row[2])).collect();
        let problem = problem(&blocks);
        assert_eq!(lower_bound(&problem), 1 << 20);
        match solve(&problem, 1 << 20, Effort::units(20_000_000)) {
            Outcome::Found(placement) => assert_fits(&problem, 1 << 20, &placement),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn blocks_live_at_all_steps_cost_only_their_size() {
    let mut random = Random::new(6);
    for _ in 0..200 {
        let inner = random_problem(&mut random);
        let mut blocks: Vec<_> =
            inner.blocks().iter().map(|block| (block.size, block.first_step, block.end_step)).collect();
        blocks.extend([(7 * UNIT, 0, 20), (9 * UNIT, 0, 20)]);
        let outer = problem(&blocks);
        let least = optimum(&inner);
        assert!(matches!(solve(&outer, least + 16 * UNIT, AMPLE), Outcome::Found(_)), "{outer:?}");
        assert_eq!(solve(&outer, least + 15 * UNIT, AMPLE), Outcome::Infeasible, "{outer:?}");
    }
}

#[test]
fn independent_ranges_of_steps_are_solved_separately() {
    // Solved together, two hard problems would take the product of their efforts.
    let mut random = Random::new(7);
    for _ in 0..100 {
        let parts: Vec<Problem> = (0..4).map(|_| random_problem(&mut random)).collect();
        let mut blocks = Vec::new();
        for (part, start) in parts.iter().zip((0..).step_by(40)) {
            blocks.extend(
                part.blocks().iter().map(|block| (block.size, block.first_step + start, block.end_step + start)),
            );
        }
        let all = problem(&blocks);
        let least = parts.iter().map(optimum).max().unwrap_or(0);
        assert!(matches!(solve(&all, least, AMPLE), Outcome::Found(_)), "{all:?}");
        assert_eq!(solve(&all, least - UNIT, AMPLE), Outcome::Infeasible, "{all:?}");
    }
}

#[test]
fn largest_sizes_do_not_overflow() {
    let huge = Bytes::MAX / 8 / UNIT * UNIT;
    let problem = problem(&[(huge, 0, 2), (huge, 1, 3), (UNIT, 0, 3), (huge, 2, 4)]);
    let capacity = 2 * huge + UNIT;
    assert!(matches!(solve(&problem, capacity, AMPLE), Outcome::Found(placement) if placement.size() == capacity));
    assert!(matches!(solve(&problem, Bytes::MAX, AMPLE), Outcome::Found(_)));
    assert_eq!(solve(&problem, capacity - 1, AMPLE), Outcome::Infeasible);
    let odd = self::problem(&[(Bytes::MAX / 4, 0, 2), (1, 1, 3), (Bytes::MAX / 4, 2, 4)]);
    assert!(matches!(solve(&odd, Bytes::MAX, AMPLE), Outcome::Found(_)));
    let too_large = self::problem(&[(Bytes::MAX, 0, 2), (Bytes::MAX, 2, 4)]);
    assert_eq!(solve(&too_large, Bytes::MAX, AMPLE), Outcome::OutOfEffort);
}
