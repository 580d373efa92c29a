//! The search against brute force, and at its limits.

use std::collections::BTreeSet;

use super::{Effort, Outcome, solve};
use crate::placement::{Block, Bytes, Placement, Problem, Step, lower_bound, validate};
use crate::testing::Random;

const UNIT: Bytes = 32;
const AMPLE: Effort = Effort::units(10_000_000);

/// A problem of (size, birth, death).
fn problem(blocks: &[(Bytes, Step, Step)]) -> Problem {
    let mut blocks = blocks.to_vec();
    blocks.sort_by_key(|&(_, birth, _)| birth);
    let mut problem = Problem::new(UNIT, None);
    for (size, birth, death) in blocks {
        problem.add(Block { size, birth, death });
    }
    problem
}

/// Blocks that fill every step equally: some die, and others that are as large together are born. Such blocks are hard
/// to fit together.
fn random_problem(random: &mut Random) -> Problem {
    let (steps, largest) = (3 + random.below(14), 3 + random.below(3));
    let mut blocks: Vec<(Bytes, Step, Step)> = Vec::new();
    let mut alive: Vec<(u32, Step)> = Vec::new();
    let mut free = 6 + random.below(4);
    for step in 0..steps {
        while free > 0 {
            let size = 1 + random.below(free.min(largest));
            free -= size;
            alive.push((size, step));
        }
        for _ in 0..1 + random.below(3) {
            if let Some(last) = u32::try_from(alive.len()).expect("few").checked_sub(1) {
                let (size, birth) = alive.swap_remove(random.below(last + 1) as usize);
                blocks.push((UNIT * u64::from(size), birth, step + 1));
                free += size;
            }
        }
    }
    blocks.extend(alive.into_iter().map(|(size, birth)| (UNIT * u64::from(size), birth, steps + 1)));
    let missing = if random.chance(20) { 4 } else { 0 };
    blocks.retain(|_| !random.chance(missing));
    problem(&blocks)
}

/// Is there a placement in so many units? Goes through time with the set of all the ways in which the blocks that are
/// alive can lie.
fn fits(problem: &Problem, units: Bytes) -> bool {
    let blocks: Vec<&Block> = problem.blocks().iter().filter(|block| block.size > 0).collect();
    let mut ways = BTreeSet::from([Vec::new()]);
    for block in blocks {
        let mut next = BTreeSet::new();
        for way in ways {
            let mut alive: Vec<(Step, Bytes, Bytes)> = way;
            alive.retain(|&(death, ..)| death > block.birth);
            let height = block.size / UNIT;
            for offset in 0..=units.saturating_sub(height) {
                let free = alive.iter().all(|&(_, start, end)| end <= offset || offset + height <= start);
                if free && offset + height <= units {
                    let mut with = alive.clone();
                    with.push((block.death, offset, offset + height));
                    with.sort_unstable();
                    next.insert(with);
                }
            }
        }
        ways = next;
    }
    !ways.is_empty()
}

fn optimum(problem: &Problem) -> Bytes {
    let units = (lower_bound(problem) / UNIT..).find(|&units| fits(problem, units));
    UNIT * units.expect("all on top of each other fit")
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
    assert!(above_bound > 30, "only {above_bound} optima are above the bound: too easy");
}
