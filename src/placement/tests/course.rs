//! The course of a problem: loads, deaths, and the lower bound.

use super::*;
use crate::placement::timeline::Timeline;

#[test]
fn lower_bound_is_the_largest_sum_of_a_step() {
    let mut random = Random::new(5);
    for _ in 0..300 {
        let problem = random_problem(&mut random, &MEDIUM);
        let steps = 0..2 * MEDIUM.steps;
        let largest = steps.map(|step| load_at(&problem, step)).max();
        assert_eq!(Some(lower_bound(&problem)), largest, "{problem:?}");
    }
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
fn blocks_are_sorted_by_their_deaths_however_far_apart_steps_are() {
    let mut random = Random::new(11);
    for _ in 0..100 {
        let problem = random_problem(&mut random, &MEDIUM);
        let mut sorted: Vec<BlockId> = (0..).take(problem.blocks().len()).collect();
        sorted.sort_by_key(|&id| (problem.blocks()[id as usize].end_step, id));
        assert_eq!(Timeline::of(&problem).by_death, sorted);
        assert_eq!(Timeline::of(&stretched(&problem, 1000)).by_death, sorted);
    }
}

#[test]
fn blocks_are_sorted_by_their_deaths_however_many_are_alive_at_once() {
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
        assert_eq!(timeline.by_death, sorted);
        let dead = problem.blocks().iter().filter(|block| block.end_step <= blocks + 50).count();
        assert_eq!(timeline.dead[last as usize] as usize, dead);
        assert_eq!(timeline.largest_load, u64::from(blocks));
        assert_eq!(timeline.loads[last as usize], u64::from(blocks) + 1 - dead as u64);
    }
}

/// The bytes alive at a step, counted block by block.
fn load_at(problem: &Problem, step: Step) -> Bytes {
    (0..problem.blocks().len()).map(|id| held(problem, id, step)).sum()
}

#[test]
fn last_block_born_at_a_step_has_its_load() {
    let mut random = Random::new(12);
    for _ in 0..100 {
        let problem = random_problem(&mut random, &MEDIUM);
        let blocks = problem.blocks();
        for (id, load) in Timeline::of(&problem).loads.into_iter().enumerate() {
            if blocks.get(id + 1).is_none_or(|next| next.first_step > blocks[id].first_step) {
                assert_eq!(load, load_at(&problem, blocks[id].first_step), "{problem:?}");
            }
        }
    }
}

/// The same blocks, each step as long as `factor` steps.
fn stretched(problem: &Problem, factor: Step) -> Problem {
    let mut stretched = Problem::new(problem.alignment(), None);
    for block in problem.blocks() {
        stretched.add(Block { first_step: block.first_step * factor, end_step: block.end_step * factor, ..*block });
    }
    problem.shrinks().iter().for_each(|shrink| stretched.shrink(shrink.block, shrink.step * factor, shrink.size));
    stretched
}
