//! The memory profile, the timeline and the lower bound.

use super::*;
use crate::placement::{MemoryProfile, Timeline, peaks};

#[test]
fn lower_bound_is_the_peak_of_the_profile() {
    let mut random = Random::new(5);
    for _ in 0..300 {
        let problem = random_problem(&mut random, &MEDIUM);
        let steps = 0..2 * MEDIUM.steps;
        let largest = steps.map(|step| live_bytes_at(&problem, step)).max();
        assert_eq!(Some(lower_bound(&problem)), largest, "{problem:?}");
    }
}

#[test]
fn profile_is_the_sum_of_the_blocks_at_each_step() {
    let mut random = Random::new(14);
    for _ in 0..100 {
        let problem = random_problem(&mut random, &MEDIUM);
        let last = problem.blocks().iter().map(|block| block.end_step).max().unwrap_or(0);
        let expected: Vec<Bytes> = (0..last).map(|step| live_bytes_at(&problem, step)).collect();
        assert_eq!(MemoryProfile::of(&problem).live, expected, "{problem:?}");
    }
    assert!(MemoryProfile::of(&problem(&[])).live.is_empty());
}

#[test]
fn overlapping_bytes_are_those_of_blocks_that_are_live_at_some_of_the_steps() {
    let blocks = [(1, 0, 3), (10, 0, 6), (100, 1, 2), (1000, 2, 6), (10_000, 5, 6)];
    let profile = MemoryProfile::of(&problem(&blocks));
    for start in 0..6 {
        for end in start + 1..8 {
            let live = blocks.iter().filter(|(_, first, last)| *first < end && *last > start);
            let bytes: Bytes = live.map(|(size, ..)| size).sum();
            assert_eq!(profile.overlapping(start..end), bytes, "{start}..{end}");
        }
    }
}

#[test]
fn crossing_bytes_are_live_at_the_step_before_too() {
    let mut problem = problem(&[(1, 0, 3), (10, 0, 6), (100, 1, 2), (1000, 2, 6), (10_000, 5, 6)]);
    problem.shrink(1, 4, 7);
    let crossing: Vec<Bytes> = (0..8).map(|step| MemoryProfile::of(&problem).crossing(step)).collect();
    assert_eq!(crossing, [0, 11, 11, 1010, 1007, 1007, 0, 0]);
}

#[test]
fn peaks_are_the_ranges_of_steps_with_the_most_live_bytes() {
    assert!(peaks(&[]).is_empty());
    assert_eq!(peaks(&[0, 0]), vec![0..2]);
    assert_eq!(peaks(&[7, 3, 7, 7, 0, 7]), [0..1, 2..4, 5..6]);
}

#[test]
fn lower_bound_does_not_depend_on_how_far_apart_steps_are() {
    let mut random = Random::new(9);
    for _ in 0..300 {
        let problem = random_problem(&mut random, &MEDIUM);
        assert_eq!(lower_bound(&stretched(&problem, 1000)), lower_bound(&problem), "{problem:?}");
    }
}

#[test]
fn blocks_are_sorted_by_end_however_far_apart_steps_are() {
    let mut random = Random::new(11);
    for _ in 0..100 {
        let problem = random_problem(&mut random, &MEDIUM);
        let mut sorted: Vec<BlockId> = (0..).take(problem.blocks().len()).collect();
        sorted.sort_by_key(|&id| (problem.blocks()[id as usize].end_step, id));
        assert_eq!(Timeline::of(&problem).by_end, sorted);
        assert_eq!(Timeline::of(&stretched(&problem, 1000)).by_end, sorted);
    }
}

#[test]
fn blocks_are_sorted_by_end_however_many_are_live_at_once() {
    let mut random = Random::new(13);
    for blocks in [255, 256, 257, 258, 1000] {
        let mut problem = Problem::new(1, None);
        for first_step in 0..blocks {
            problem.add(Block { size: 1, first_step, end_step: blocks + random.below(100) });
        }
        let last = problem.add(Block { size: 1, first_step: blocks + 50, end_step: Step::MAX });
        let timeline = Timeline::of(&problem);
        let mut sorted: Vec<BlockId> = (0..=blocks).collect();
        sorted.sort_by_key(|&id| (problem.blocks()[id as usize].end_step, id));
        assert_eq!(timeline.by_end, sorted);
        let ended = problem.blocks().iter().filter(|block| block.end_step <= blocks + 50).count();
        assert_eq!(timeline.ended[last as usize] as usize, ended);
        assert_eq!(timeline.lower_bound, u64::from(blocks));
        assert_eq!(timeline.live_bytes[last as usize], u64::from(blocks) + 1 - ended as u64);
    }
}

/// Returns the live bytes at a step, counted block by block.
fn live_bytes_at(problem: &Problem, step: Step) -> Bytes {
    (0..problem.blocks().len()).map(|id| held(problem, id, step)).sum()
}

#[test]
fn last_block_that_starts_at_a_step_has_its_live_bytes() {
    let mut random = Random::new(12);
    for _ in 0..100 {
        let problem = random_problem(&mut random, &MEDIUM);
        let blocks = problem.blocks();
        for (id, live) in Timeline::of(&problem).live_bytes.into_iter().enumerate() {
            if blocks.get(id + 1).is_none_or(|next| next.first_step > blocks[id].first_step) {
                assert_eq!(live, live_bytes_at(&problem, blocks[id].first_step), "{problem:?}");
            }
        }
    }
}

/// Copies a problem with every step replaced by `factor` steps.
fn stretched(problem: &Problem, factor: Step) -> Problem {
    let mut stretched = Problem::new(problem.alignment(), None);
    for block in problem.blocks() {
        stretched.add(Block { first_step: block.first_step * factor, end_step: block.end_step * factor, ..*block });
    }
    problem.shrinks().iter().for_each(|shrink| stretched.shrink(shrink.block, shrink.step * factor, shrink.size));
    stretched
}
