//! Placements from a peak on hand-made problems, and gaps against those computed from the live blocks.

use std::ops::Range;

use super::gaps::Gaps;
use super::{FromPeak, Timeline};
use crate::placement::{Block, Bytes, Offset, Problem, Strategy, lower_bound, validate};
use crate::testing::Random;

/// Creates a problem of (size, first step, end step).
fn problem(blocks: &[(Bytes, u32, u32)]) -> Problem {
    let mut problem = Problem::new(1, None);
    for &(size, first_step, end_step) in blocks {
        problem.add(Block { size, first_step, end_step });
    }
    problem
}

fn random_problem(random: &mut Random) -> Problem {
    let mut starts: Vec<u32> = (0..40).map(|_| random.below(30)).collect();
    starts.sort_unstable();
    let mut blocks = Vec::new();
    for first_step in starts {
        let longest = if random.chance(80) { 4 } else { 30 };
        blocks.push((u64::from(random.below(8)), first_step, first_step + 1 + random.below(longest)));
    }
    problem(&blocks)
}

fn offsets(problem: &Problem, strategy: FromPeak) -> Vec<Offset> {
    let placement = strategy.place(problem);
    assert_eq!(validate(problem, &placement), Ok(()));
    placement.locations.iter().map(|location| location.offset).collect()
}

/// The peak is at step 5; the pile is the third, the fourth and the first block.
#[test]
fn block_lies_beside_the_neighbour_that_ends_next_after_it() {
    let problem = problem(&[(16, 1, 7), (16, 2, 4), (16, 4, 12), (32, 5, 6), (16, 6, 9)]);
    assert_eq!(offsets(&problem, FromPeak::Last), [48, 32, 0, 16, 16]);
}

/// At step 9 the last block could lie on the second, which ends with it.
#[test]
fn gap_of_exactly_the_size_comes_first() {
    let pile = [(8, 0, 20), (8, 0, 10), (8, 0, 6), (24, 0, 2)];
    let later = [(8, 2, 9), (8, 3, 4), (8, 3, 12), (16, 6, 7), (8, 9, 10)];
    let problem = problem(&[&pile[..], &later[..]].concat());
    assert_eq!(offsets(&problem, FromPeak::First), [0, 8, 16, 24, 40, 24, 32, 16, 40]);
}

/// Creates the timeline of blocks of these sizes, one a step.
fn timeline_of(live_bytes: &[Bytes]) -> Timeline {
    Timeline::of(&problem(&(0..).zip(live_bytes).map(|(step, &bytes)| (bytes, step, step + 1)).collect::<Vec<_>>()))
}

#[test]
fn peaks_are_found_at_their_steps() {
    let problem = problem(&[(100, 0, 1), (100, 1, 2), (99, 2, 3), (95, 3, 4), (94, 4, 5)]);
    let timeline = Timeline::of(&problem);
    let all = [FromPeak::First, FromPeak::Last, FromPeak::LastHigh, FromPeak::AfterLast];
    assert_eq!(all.map(|strategy| strategy.start(&timeline)), [Some(0), Some(2), Some(3), Some(3)]);
    let ends_high = timeline_of(&[50, 100, 40, 94, 94, 20]);
    assert_eq!(FromPeak::AfterLast.start(&ends_high), Some(4));
    assert_eq!(FromPeak::AfterLast.start(&timeline_of(&[50, 100])), Some(1), "no step comes after it");
    assert_eq!(FromPeak::AfterLast.start(&timeline_of(&[])), None);
}

/// In every layer the new residual block starts while the old one is live.
#[test]
fn layers_of_a_network_are_placed_at_the_lower_bound() {
    let layers = (0..20u32).flat_map(|layer| {
        let step = 10 * layer;
        [(8, step, step + 11), (30, step + 2, step + 5), (30, step + 3, step + 6), (40, step + 5, step + 8)]
    });
    let problem = problem(&layers.collect::<Vec<_>>());
    for strategy in FromPeak::ALL {
        assert_eq!(strategy.place(&problem).size(), lower_bound(&problem), "{}", strategy.name());
    }
}

#[test]
fn placement_is_within_the_limit_or_none() {
    let mut random = Random::new(1);
    let (mut at_bound, mut above) = (0, 0);
    for _ in 0..300 {
        let problem = random_problem(&mut random);
        let timeline = Timeline::of(&problem);
        for strategy in FromPeak::ALL {
            let within = |limit| strategy.place_within(&problem, limit);
            let free = strategy.place(&problem);
            assert_eq!(within(free.size()).as_ref(), Some(&free));
            assert_eq!(within(free.size() - 1), None);
            *(if free.size() == timeline.lower_bound { &mut at_bound } else { &mut above }) += 1;
        }
    }
    assert!(at_bound > 50 && above > 50, "{at_bound} at the bound, {above} above it");
}

#[test]
fn gaps_are_the_free_ranges_between_live_blocks() {
    const CAPACITY: Bytes = 100;
    let mut random = Random::new(2);
    let mut gaps = Gaps::default();
    gaps.reset(500);
    gaps.clear(CAPACITY);
    let mut live: Vec<(u32, Range<Offset>)> = Vec::new();
    for block in 0..500 {
        let size = 1 + u64::from(random.below(20));
        if gaps.place(block, size, random.below(50), CAPACITY).is_some() {
            let start = gaps.offsets().nth(block as usize).expect("it is placed");
            live.push((block, start..start + size));
        }
        while live.len() > 12 || random.chance(40) && !live.is_empty() {
            let dead = random.below(u32::try_from(live.len()).expect("few")) as usize;
            gaps.free(live.swap_remove(dead).0);
        }
        assert_eq!(gaps.ranges(), free_ranges(&live, CAPACITY));
    }
}

fn free_ranges(live: &[(u32, Range<Offset>)], capacity: Bytes) -> Vec<Range<Offset>> {
    let mut taken: Vec<Range<Offset>> = live.iter().map(|(_, range)| range.clone()).collect();
    taken.sort_by_key(|range| range.start);
    taken.push(capacity..capacity);
    let mut free = Vec::new();
    let mut top = 0;
    for range in taken {
        assert!(range.start >= top, "blocks overlap: {live:?}");
        if range.start > top {
            free.push(top..range.start);
        }
        top = range.end;
    }
    free
}
