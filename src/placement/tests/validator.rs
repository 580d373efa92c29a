//! The validators find every defect and its position.

use super::*;

#[test]
fn validator_counts_locations_and_chunks() {
    let problem = problem(&[(16, 0, 1)]);
    let no_location = placement(&[], 16);
    assert_eq!(validate(&problem, &no_location), Err(Defect::WrongCount { blocks: 1, locations: 0 }));
    let too_many = Placement { locations: vec![Location::default()], chunks: vec![16; MAX_CHUNKS + 1] };
    assert_eq!(validate(&problem, &too_many), Err(Defect::TooManyChunks(MAX_CHUNKS + 1)));
}

#[test]
fn validator_finds_blocks_outside_their_chunks() {
    let problem = problem(&[(16, 0, 1), (32, 1, 2)]);
    assert_eq!(validate(&problem, &placement(&[0, 0], 32)), Ok(()));
    assert_eq!(validate(&problem, &placement(&[0, 16], 32)), Err(Defect::OutOfChunk(1)));
    assert_eq!(validate(&problem, &placement(&[0, u64::MAX - 15], 32)), Err(Defect::OutOfChunk(1)), "the end wraps");
    let no_chunk = Placement { locations: vec![Location { chunk: 1, offset: 0 }; 2], chunks: vec![32] };
    assert_eq!(validate(&problem, &no_chunk), Err(Defect::OutOfChunk(0)));
}

#[test]
fn validator_finds_offsets_that_are_not_aligned() {
    let problem = problem(&[(16, 0, 1), (16, 1, 2)]);
    assert_eq!(validate(&problem, &placement(&[0, 8], 32)), Err(Defect::Misaligned(1)));
}

#[test]
fn validator_finds_overlaps_in_the_same_chunk_only() {
    let problem = problem(&[(32, 0, 3), (32, 2, 4)]);
    let overlap = Err(Defect::Overlap { first: 0, second: 1, step: 2 });
    assert_eq!(validate(&problem, &placement(&[0, 16], 48)), overlap);
    assert_eq!(validate(&problem, &placement(&[16, 0], 48)), overlap);
    assert_eq!(validate(&problem, &placement(&[0, 0], 32)), overlap);
    let locations = vec![Location { chunk: 0, offset: 0 }, Location { chunk: 1, offset: 0 }];
    assert_eq!(validate(&problem, &Placement { locations, chunks: vec![32, 32] }), Ok(()));
}

#[test]
fn validator_finds_chunks_beyond_the_limit() {
    let problem = limited(&problem(&[(32, 0, 1), (32, 0, 1)]), 48);
    assert_eq!(validate(&problem, &placement(&[0, 32], 64)), Err(Defect::ChunkTooLarge(0)));
    let mut last = Placement { locations: vec![], chunks: vec![0; MAX_CHUNKS - 1] };
    last.chunks.push(64);
    last.locations = [0, 32].map(|offset| Location { chunk: 15, offset }).to_vec();
    assert_eq!(validate(&problem, &last), Ok(()), "the last chunk has no limit");
}

#[test]
fn defects_name_the_blocks() {
    let defects = [
        (Defect::WrongCount { blocks: 3, locations: 2 }, "3 blocks but 2 locations"),
        (Defect::TooManyChunks(17), "17 chunks, and 16 is the most"),
        (Defect::OutOfChunk(7), "block 7 lies outside its chunk"),
        (Defect::Misaligned(7), "block 7 is not aligned"),
        (Defect::ChunkTooLarge(2), "chunk 2 is larger than the buffer type allows"),
        (Defect::Overlap { first: 1, second: 2, step: 5 }, "blocks 1 and 2 share bytes at step 5"),
    ];
    for (defect, text) in defects {
        assert_eq!(defect.to_string(), text);
    }
}

/// Compares both validators on valid placements, some of them with one block moved.
#[test]
fn both_validators_agree() {
    let mut random = Random::new(8);
    let (mut valid, mut invalid) = (0, 0);
    for _ in 0..400 {
        let problem = random_problem(&mut random, &MEDIUM);
        let problem = limited(&problem, BestFit.place(&problem).size() / 2 + ALIGNMENT);
        let mut placement = BestFit.place(&problem);
        let moved = random.below(u32::try_from(placement.locations.len()).expect("small")) as usize;
        let location = &mut placement.locations[moved];
        match random.below(4) {
            0 => location.offset = location.offset.saturating_sub(ALIGNMENT),
            1 => location.offset += ALIGNMENT,
            2 => location.chunk ^= 1,
            _ => {}
        }
        let (all_pairs, sweep) = (validate(&problem, &placement), validate_large(&problem, &placement));
        assert_eq!(all_pairs.is_ok(), sweep.is_ok(), "{all_pairs:?} {sweep:?} {problem:?} {placement:?}");
        *(if sweep.is_ok() { &mut valid } else { &mut invalid }) += 1;
    }
    assert!(valid > 100 && invalid > 100, "{valid} valid, {invalid} invalid");
}
