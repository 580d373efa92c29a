//! Sweeps against a plain implementation without data structures.

use super::{Sweeper, UnplacedBlocks, ValleySweep, best_sweep};
use crate::placement::{Block, Bytes, Offset, Problem, Strategy, lower_bound, validate};
use crate::testing::Random;

fn random_problem(random: &mut Random, blocks: u32, steps: u32) -> Problem {
    let mut starts: Vec<u32> = (0..blocks).map(|_| random.below(steps)).collect();
    starts.sort_unstable();
    let mut problem = Problem::new(1, None);
    for first_step in starts {
        let longest = if random.chance(70) { 8 } else { steps };
        let size = if random.chance(5) { 0 } else { 1 + u64::from(random.below(100)) };
        problem.add(Block { size, first_step, end_step: first_step + 1 + random.below(longest) });
    }
    problem
}

/// Fills the lowest valley of a skyline with a height for each step; compares all blocks every time.
fn plain_sweep(problem: &Problem, ranks: &[u32]) -> Vec<Offset> {
    let blocks = problem.blocks();
    let mut heights: Vec<Bytes> = vec![0; blocks.iter().map(|block| block.end_step as usize).max().unwrap_or(0)];
    let mut offsets = vec![None; blocks.len()];
    while offsets.contains(&None) {
        let floor = *heights.iter().min().expect("a block is live for a step");
        let start = heights.iter().position(|&height| height == floor).expect("the floor is somewhere");
        let end = start + heights[start..].iter().take_while(|&&height| height == floor).count();
        let fits = |id: usize| {
            offsets[id].is_none() && start <= blocks[id].first_step as usize && blocks[id].end_step as usize <= end
        };
        if let Some(id) = (0..blocks.len()).filter(|&id| fits(id)).min_by_key(|&id| ranks[id]) {
            offsets[id] = Some(floor);
            let Block { size, first_step, end_step } = blocks[id];
            heights[first_step as usize..end_step as usize].fill(floor + size);
        } else {
            let before = start.checked_sub(1).map(|step| heights[step]);
            let lower = before.into_iter().chain(heights.get(end).copied()).min();
            heights[start..end].fill(lower.expect("all blocks fit on a flat skyline"));
        }
    }
    offsets.into_iter().flatten().collect()
}

#[test]
fn every_order_gives_the_placement_of_a_plain_sweep() {
    let mut random = Random::new(1);
    for blocks in (1..60).chain([100, 150, 600]) {
        let problem = random_problem(&mut random, blocks, 1 + blocks / 2);
        let sweeper = Sweeper::new(&problem);
        for order in ValleySweep::ALL {
            let locations = order.place(&problem).locations;
            let offsets: Vec<Offset> = locations.into_iter().map(|location| location.offset).collect();
            assert_eq!(offsets, plain_sweep(&problem, &sweeper.ranks(order)), "{order:?} {problem:?}");
        }
    }
}

#[test]
fn ranks_are_a_permutation() {
    let mut random = Random::new(2);
    let problem = random_problem(&mut random, 300, 100);
    let sweeper = Sweeper::new(&problem);
    for order in ValleySweep::ALL {
        let mut ranks = sweeper.ranks(order);
        ranks.sort_unstable();
        assert!(ranks.into_iter().eq(0..300), "{order:?}");
    }
}

#[test]
fn order_by_load_puts_blocks_live_at_the_peak_first() {
    let mut problem = Problem::new(1, None);
    for (size, first_step, end_step) in [(9, 0, 1), (1, 1, 5), (20, 2, 3), (2, 4, 40)] {
        problem.add(Block { size, first_step, end_step });
    }
    let ranks = |order| Sweeper::new(&problem).ranks(order);
    assert_eq!(ranks(ValleySweep::LengthAndSize), [3, 2, 1, 0]);
    assert_eq!(ranks(ValleySweep::LoadAndLength), [2, 0, 1, 3]);
}

#[test]
fn placement_is_below_the_limit_or_none() {
    let mut random = Random::new(3);
    for _ in 0..50 {
        let problem = random_problem(&mut random, 60, 30);
        let sweeper = Sweeper::new(&problem);
        let ranks = sweeper.ranks(ValleySweep::LoadAndArea);
        let free = sweeper.place_below(Bytes::MAX, &ranks).expect("no limit");
        assert_eq!(sweeper.place_below(free.size() + 1, &ranks).as_ref(), Some(&free));
        assert_eq!(sweeper.place_below(free.size(), &ranks), None);
    }
}

#[test]
fn best_sweep_is_no_larger_than_each() {
    let mut random = Random::new(4);
    let mut better = 0;
    for _ in 0..50 {
        let problem = random_problem(&mut random, 120, 60);
        let bound = lower_bound(&problem);
        let single = ValleySweep::ALL.iter().map(|order| order.place(&problem).size()).min().expect("several orders");
        let (orders, _) = best_sweep(&problem, bound, Bytes::MAX, ValleySweep::ALL.len()).expect("no limit");
        let (rounds, _) = best_sweep(&problem, bound, Bytes::MAX, 40).expect("no limit");
        assert_eq!(validate(&problem, &rounds), Ok(()));
        assert_eq!(orders.size(), single, "{problem:?}");
        assert!(bound <= rounds.size() && rounds.size() <= single, "{problem:?}");
        better += u32::from(rounds.size() < single);
        assert!(best_sweep(&problem, bound, rounds.size(), 40).is_none_or(|(below, _)| below.size() < rounds.size()));
    }
    assert!(better > 3, "more rounds help on {better} of 50 problems only");
}

/// Most of the best-ranked blocks do not fit. A query stops early then, but finds every block that fits.
#[test]
fn query_that_stops_early_finds_every_block_that_fits() {
    const BLOCKS: u32 = 10_000;
    let ends: Vec<u32> = (0..BLOCKS).map(|id| if id % 2 == 0 { id + 1 } else { BLOCKS }).collect();
    let ranks: Vec<u32> = (0..BLOCKS).map(|id| BLOCKS / 2 * u32::from(id % 2 == 0) + (BLOCKS - 1 - id) / 2).collect();
    let mut unplaced = UnplacedBlocks::new(&ends, &ranks);
    let mut found: Vec<usize> = std::iter::from_fn(|| unplaced.take_best(1001, 6000)).collect();
    found.sort_unstable();
    assert!(found.into_iter().eq((1002..6000).step_by(2)));
    assert_eq!(unplaced.take_best(9999, BLOCKS), Some(9999));
    assert!(!unplaced.is_empty());
}
