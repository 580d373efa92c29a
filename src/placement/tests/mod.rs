//! Placements by every strategy, on random problems and on hand-made ones.

mod optimum;
mod profile;
mod validator;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::placement::choose::STRATEGIES;
use crate::placement::{
    BestFit, Block, BlockId, Bytes, Defect, Effort, FromPeak, LargestFirst, Location, MAX_CHUNKS, Placement, Problem,
    Shrink, Step, Strategy, TooLarge, ValleySweep, Workspace, choose, lower_bound, place_as_ggml, validate,
    validate_large,
};
use crate::testing::Random;

const ALIGNMENT: Bytes = 16;

/// The parameters of random problems.
struct Shape {
    blocks: Range<u32>,
    steps: u32,
    units: u32,
    /// Blocks that shrink, in percent.
    shrinking: u32,
}

const MEDIUM: Shape = Shape { blocks: 1..80, steps: 40, units: 50, shrinking: 15 };
const TINY: Shape = Shape { blocks: 1..7, steps: 6, units: 5, shrinking: 20 };

fn random_problem(random: &mut Random, shape: &Shape) -> Problem {
    let mut problem = Problem::new(ALIGNMENT, None);
    let mut starts: Vec<Step> = (0..random_in(random, &shape.blocks)).map(|_| random.below(shape.steps)).collect();
    starts.sort_unstable();
    let mut shrinks = Vec::new();
    for first_step in starts {
        let longest = if random.chance(80) { shape.steps.min(6) } else { shape.steps };
        let end_step = first_step + 1 + random.below(longest);
        let block = Block { size: random_size(random, shape.units), first_step, end_step };
        let id = problem.add(block);
        if random.chance(shape.shrinking) {
            shrinks.extend(random_shrinks(random, id, block));
        }
    }
    shrinks.sort_by_key(|shrink: &Shrink| shrink.step);
    shrinks.into_iter().for_each(|Shrink { block, step, size }| problem.shrink(block, step, size));
    problem
}

fn random_in(random: &mut Random, range: &Range<u32>) -> u32 {
    range.start + random.below(range.end - range.start)
}

/// Returns a size that is usually small, sometimes large, sometimes 0.
fn random_size(random: &mut Random, units: u32) -> Bytes {
    match random.below(20) {
        0 => 0,
        1 => ALIGNMENT * u64::from(units) * u64::from(1 + random.below(4)),
        _ => ALIGNMENT * u64::from(1 + random.below(units)),
    }
}

/// Returns up to two shrinks of a block.
fn random_shrinks(random: &mut Random, id: u32, block: Block) -> Vec<Shrink> {
    let mut shrinks = Vec::new();
    let (mut step, mut units) = (block.first_step, u32::try_from(block.size / ALIGNMENT).expect("sizes are small"));
    for _ in 0..2 {
        if step + 1 < block.end_step && units > 0 {
            step += 1 + random.below(block.end_step - step - 1);
            units = random.below(units);
            shrinks.push(Shrink { block: id, step, size: ALIGNMENT * u64::from(units) });
        }
    }
    shrinks
}

/// Copies a problem with another limit on chunks.
fn limited(problem: &Problem, max_chunk: Bytes) -> Problem {
    let mut copy = Problem::new(problem.alignment(), Some(max_chunk));
    problem.blocks().iter().for_each(|&block| {
        copy.add(block);
    });
    problem.shrinks().iter().for_each(|shrink| copy.shrink(shrink.block, shrink.step, shrink.size));
    copy
}

/// Creates a problem of (size, first step, end step).
fn problem(blocks: &[(Bytes, Step, Step)]) -> Problem {
    let mut problem = Problem::new(ALIGNMENT, None);
    for &(size, first_step, end_step) in blocks {
        problem.add(Block { size, first_step, end_step });
    }
    problem
}

/// Creates a placement in one chunk.
fn placement(offsets: &[Bytes], chunk: Bytes) -> Placement {
    Placement { locations: offsets.iter().map(|&offset| Location { chunk: 0, offset }).collect(), chunks: vec![chunk] }
}

fn strategies() -> Vec<&'static dyn Strategy> {
    let from_peak = FromPeak::ALL.iter().map(|strategy| strategy as &dyn Strategy);
    from_peak.chain(STRATEGIES).collect()
}

/// Returns the strategies that respect a limit on chunks.
fn chunk_splitters() -> Vec<&'static dyn Strategy> {
    let largest_first = LargestFirst::ALL.iter().map(|strategy| strategy as &dyn Strategy);
    largest_first.chain([&BestFit as &dyn Strategy]).collect()
}

fn assert_valid(problem: &Problem, placement: &Placement, strategy: &str) {
    assert_eq!(validate(problem, placement), Ok(()), "{strategy}: {problem:?} {placement:?}");
    assert!(placement.size() >= lower_bound(problem), "{strategy} is below the lower bound: {problem:?}");
}

/// Asserts that the choice is valid, and no worse than ggml's own strategy in bytes or in chunks.
fn assert_chosen_well(problem: &Problem) {
    let (choice, best_fit) =
        (choose(problem, None, Effort::default(), &mut Workspace::default()), BestFit.place(problem));
    assert_valid(problem, &choice.placement, choice.strategy);
    assert!(choice.placement.size() <= best_fit.size(), "{problem:?}");
    assert!(choice.placement.chunks.len() <= best_fit.chunks.len(), "{problem:?}");
    assert_eq!(choice.lower_bound, lower_bound(problem));
}

/// Returns limits that split a placement into 2, 4 and 8 chunks, the last often below the largest block.
fn limits(problem: &Problem) -> impl Iterator<Item = Bytes> {
    let size = BestFit.place(problem).size();
    [2, 4, 8].into_iter().map(move |parts| (size / parts).next_multiple_of(ALIGNMENT))
}

#[test]
fn every_strategy_is_valid_on_random_problems() {
    let mut random = Random::new(1);
    for _ in 0..300 {
        let problem = random_problem(&mut random, &MEDIUM);
        for strategy in strategies() {
            assert_valid(&problem, &strategy.place(&problem), strategy.name());
        }
    }
}

#[test]
fn every_chunk_splitter_is_valid_with_a_limit() {
    let mut random = Random::new(2);
    for _ in 0..200 {
        let problem = random_problem(&mut random, &MEDIUM);
        for limited in limits(&problem).map(|limit| limited(&problem, limit)) {
            for strategy in chunk_splitters() {
                assert_valid(&limited, &strategy.place(&limited), strategy.name());
            }
        }
    }
}

#[test]
fn choice_is_never_worse_than_best_fit() {
    let mut random = Random::new(3);
    for _ in 0..300 {
        let problem = random_problem(&mut random, &MEDIUM);
        assert_chosen_well(&problem);
        limits(&problem).for_each(|limit| assert_chosen_well(&limited(&problem, limit)));
    }
}

/// A strategy that is never chosen can go. `-- --nocapture` prints how often each is.
#[test]
fn every_strategy_is_chosen_for_some_problem() {
    let mut random = Random::new(12);
    let mut chosen: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..1500 {
        let problem = random_problem(&mut random, &MEDIUM);
        let in_chunks = limited(&problem, BestFit.place(&problem).size() / 64 * ALIGNMENT);
        for problem in [problem, in_chunks] {
            *chosen.entry(choose(&problem, None, Effort::NONE, &mut Workspace::default()).strategy).or_default() += 1;
        }
    }
    println!("{chosen:#?}");
    assert!(STRATEGIES.iter().all(|strategy| chosen.contains_key(strategy.name())), "{chosen:?}");
}

/// With this many blocks, only sweeps and best fit are tried.
#[test]
fn choice_for_many_blocks_is_never_worse_than_best_fit() {
    let mut random = Random::new(10);
    for steps in [500, 5000] {
        let problem = random_problem(&mut random, &Shape { blocks: 4100..4200, steps, ..MEDIUM });
        assert_chosen_well(&problem);
        limits(&problem).for_each(|limit| assert_chosen_well(&limited(&problem, limit)));
        // One chunk is enough at the lower bound, but maybe for no placement that is found.
        assert_chosen_well(&limited(&problem, lower_bound(&problem)));
    }
}

#[test]
fn same_problem_gives_same_placement() {
    let mut random = Random::new(4);
    for _ in 0..50 {
        let problem = random_problem(&mut random, &MEDIUM);
        for strategy in strategies() {
            assert_eq!(strategy.place(&problem), strategy.place(&problem.clone()), "{}", strategy.name());
        }
        let (first, second) = (
            choose(&problem, None, Effort::default(), &mut Workspace::default()),
            choose(&problem.clone(), None, Effort::default(), &mut Workspace::default()),
        );
        assert_eq!((first.placement, first.strategy), (second.placement, second.strategy));
    }
}

#[test]
fn strategies_have_different_names() {
    let mut names: Vec<&str> = strategies().iter().map(|strategy| strategy.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), strategies().len());
    assert!(ValleySweep::ALL.iter().all(|order| names.contains(&order.name())));
}

/// Returns the bytes that a block holds at a step.
fn held(problem: &Problem, id: usize, step: Step) -> Bytes {
    let block = problem.blocks()[id];
    if !(block.first_step..block.end_step).contains(&step) {
        return 0;
    }
    let mut shrinks = problem.shrinks().iter().filter(|shrink| shrink.block as usize == id && shrink.step <= step);
    shrinks.next_back().map_or(block.size, |shrink| shrink.size)
}

#[test]
fn no_blocks_need_no_bytes() {
    let problem = problem(&[]);
    for strategy in strategies() {
        assert_valid(&problem, &strategy.place(&problem), strategy.name());
        assert_eq!(strategy.place(&problem).size(), 0, "{}", strategy.name());
    }
    let choice = choose(&problem, None, Effort::default(), &mut Workspace::default());
    assert!(choice.is_optimal() && choice.lower_bound == 0 && choice.placement.locations.is_empty());
}

#[test]
fn blocks_without_bytes_fit_anywhere() {
    let problem = problem(&[(0, 0, 3), (32, 0, 2), (0, 1, 2), (32, 2, 3), (0, 2, 3)]);
    for strategy in strategies() {
        assert_valid(&problem, &strategy.place(&problem), strategy.name());
        assert_eq!(strategy.place(&problem).size(), 32, "{}", strategy.name());
    }
    for limit in [0, 16, 32] {
        assert_chosen_well(&limited(&problem, limit));
    }
}

#[test]
fn last_chunk_has_no_limit() {
    let problem = limited(&problem(&[(64, 0, 1); 40]), 64);
    for strategy in chunk_splitters() {
        let placement = strategy.place(&problem);
        assert_valid(&problem, &placement, strategy.name());
        assert_eq!(placement.chunks.len(), MAX_CHUNKS, "{}", strategy.name());
        assert_eq!(placement.chunks[MAX_CHUNKS - 1], 25 * 64, "{}", strategy.name());
    }
    assert_chosen_well(&problem);
}

#[test]
fn block_beyond_the_limit_gets_a_chunk_of_its_own_size() {
    let problem = limited(&problem(&[(64, 0, 2), (256, 0, 2), (64, 0, 2)]), 128);
    for strategy in chunk_splitters() {
        let placement = strategy.place(&problem);
        assert_valid(&problem, &placement, strategy.name());
        let mut chunks = placement.chunks.clone();
        chunks.sort_unstable();
        assert_eq!(chunks, [128, 256], "{}", strategy.name());
    }
    assert_chosen_well(&problem);
}

#[test]
fn largest_sizes_and_longest_live_ranges_do_not_overflow() {
    let largest = u64::MAX / 2 / ALIGNMENT * ALIGNMENT;
    let problem = problem(&[(largest - 32, 0, 1 << 20), (32, 5, 1 << 20)]);
    assert_eq!(problem.check_total(), Ok(()));
    for strategy in strategies().into_iter().filter(|strategy| strategy.suits(&problem)) {
        assert_valid(&problem, &strategy.place(&problem), strategy.name());
        assert_eq!(strategy.place(&problem).size(), largest, "{}", strategy.name());
    }
    assert_chosen_well(&problem);
    assert_chosen_well(&limited(&problem, u64::MAX));
}

#[test]
fn total_beyond_half_the_address_space_is_refused() {
    let half = u64::MAX / 2;
    assert_eq!(problem(&[(half, 0, 1)]).check_total(), Ok(()));
    assert_eq!(problem(&[(half - 1, 0, 1), (1, 1, 2)]).check_total(), Ok(()));
    assert_eq!(problem(&[(half, 0, 1), (1, 1, 2)]).check_total(), Err(TooLarge { bytes: half + 1 }));
    assert_eq!(
        problem(&[(u64::MAX, 0, 1), (2, 1, 2)]).check_total(),
        Err(TooLarge { bytes: u64::MAX }),
        "the sum saturates"
    );
    assert_eq!(problem(&[]).check_total(), Ok(()));
}

/// Creates a problem whose first block keeps 32 of its 96 bytes from step 2 on.
fn shrinking(second_start: Step) -> Problem {
    let mut problem = problem(&[(96, 0, 4), (64, second_start, 4)]);
    problem.shrink(0, 2, 32);
    problem
}

#[test]
fn best_fit_uses_a_free_tail() {
    let problem = shrinking(2);
    assert_eq!(BestFit.place(&problem), placement(&[0, 32], 96));
    assert_eq!(lower_bound(&problem), 96);
    let choice = choose(&problem, None, Effort::default(), &mut Workspace::default());
    assert_eq!((choice.placement.size(), choice.is_optimal()), (96, true));
}

#[test]
fn empty_blocks_split_the_free_memory_of_ggml_alone() {
    // The empty block lies inside the fourth one, which is released between two free ranges.
    let problem = problem(&[(16, 0, 2), (32, 0, 1), (0, 0, 3), (64, 1, 4), (128, 4, 5)]);
    assert_eq!(place_as_ggml(&problem, |_| 0), placement(&[0, 16, 48, 16, 80], 208));
    assert_eq!(BestFit.place(&problem), placement(&[0, 16, 48, 16, 0], 128));
}

#[test]
fn tail_is_free_from_its_step_on_and_not_before() {
    let in_tail = placement(&[0, 32], 96);
    assert_eq!(validate(&shrinking(2), &in_tail), Ok(()));
    assert_eq!(validate(&shrinking(1), &in_tail), Err(Defect::Overlap { first: 0, second: 1, step: 1 }));
    let in_head = placement(&[0, 16], 96);
    assert_eq!(validate(&shrinking(2), &in_head), Err(Defect::Overlap { first: 0, second: 1, step: 2 }));
}

#[test]
fn block_may_shrink_twice() {
    let mut problem = problem(&[(96, 0, 4), (32, 1, 4), (32, 2, 4)]);
    problem.shrink(0, 1, 64);
    problem.shrink(0, 2, 32);
    assert_eq!(BestFit.place(&problem), placement(&[0, 64, 32], 96));
    assert_eq!(validate(&problem, &placement(&[0, 64, 32], 96)), Ok(()));
    let too_early = Defect::Overlap { first: 0, second: 1, step: 1 };
    assert_eq!(validate(&problem, &placement(&[0, 32, 64], 96)), Err(too_early));
    assert_eq!(lower_bound(&problem), 96);
}

#[test]
fn best_fit_takes_the_later_of_two_equal_gaps() {
    let problem = problem(&[(16, 0, 2), (16, 0, 6), (16, 0, 2), (16, 0, 6), (16, 2, 6)]);
    assert_eq!(BestFit.place(&problem), placement(&[0, 16, 32, 48, 32], 64), "as ggml-alloc does");
}
