//! Checks placements. Brute force over all pairs of blocks, on purpose: it shares no code or idea with any strategy.

use std::collections::BTreeMap;
use std::fmt;

use super::{Block, BlockId, Bytes, ChunkId, Location, MAX_CHUNKS, Offset, Placement, Problem, Step};

/// A rule that a placement breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// The number of locations differs from the number of blocks.
    WrongCount {
        /// Blocks of the problem.
        blocks: usize,
        /// Locations of the placement.
        locations: usize,
    },
    /// There are more than [`MAX_CHUNKS`] chunks.
    TooManyChunks(usize),
    /// A block lies in a chunk that does not exist, or beyond the end of its chunk.
    OutOfChunk(BlockId),
    /// The offset of a block is not a multiple of the alignment.
    Misaligned(BlockId),
    /// A chunk exceeds the limit, but is not the last of [`MAX_CHUNKS`] and holds no block of its size.
    ChunkTooLarge(usize),
    /// Two blocks that are live at the same step share bytes.
    Overlap {
        /// The block with the lower id.
        first: BlockId,
        /// The block with the higher id.
        second: BlockId,
        /// A step at which both are live.
        step: Step,
    },
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongCount { blocks, locations } => write!(f, "{blocks} blocks but {locations} locations"),
            Self::TooManyChunks(count) => write!(f, "{count} chunks, and {MAX_CHUNKS} is the most"),
            Self::OutOfChunk(block) => write!(f, "block {block} lies outside its chunk"),
            Self::Misaligned(block) => write!(f, "block {block} is not aligned"),
            Self::ChunkTooLarge(chunk) => write!(f, "chunk {chunk} is larger than the buffer type allows"),
            Self::Overlap { first, second, step } => {
                write!(f, "blocks {first} and {second} share bytes at step {step}")
            }
        }
    }
}

/// Checks a placement against every rule, comparing all pairs of blocks.
///
/// # Errors
/// Returns the first [`Defect`] found.
pub fn validate(problem: &Problem, placement: &Placement) -> Result<(), Defect> {
    check_counts(problem, placement)?;
    let rectangles = rectangles(problem);
    for id in 0..rectangles.len() {
        check_location(problem, placement, id)?;
        for other in 0..id {
            check_pair(placement, &rectangles, other, id)?;
        }
    }
    (0..placement.chunks.len()).try_for_each(|chunk| check_chunk(problem, placement, chunk))
}

/// Checks a placement of a problem that is too large for all pairs: sweeps over the steps, and compares each block with
/// its neighbours in the order of offsets.
///
/// # Errors
/// Returns one of the [`Defect`]s, not always the one that [`validate`] finds first.
pub fn validate_large(problem: &Problem, placement: &Placement) -> Result<(), Defect> {
    check_counts(problem, placement)?;
    (0..problem.blocks().len()).try_for_each(|id| check_location(problem, placement, id))?;
    check_overlaps(placement, &rectangles(problem))?;
    (0..placement.chunks.len()).try_for_each(|chunk| check_chunk(problem, placement, chunk))
}

fn check_counts(problem: &Problem, placement: &Placement) -> Result<(), Defect> {
    let (blocks, locations) = (problem.blocks().len(), placement.locations.len());
    if blocks != locations {
        return Err(Defect::WrongCount { blocks, locations });
    }
    if placement.chunks.len() > MAX_CHUNKS {
        return Err(Defect::TooManyChunks(placement.chunks.len()));
    }
    Ok(())
}

fn check_location(problem: &Problem, placement: &Placement, id: usize) -> Result<(), Defect> {
    let (block, location) = (problem.blocks()[id], placement.locations[id]);
    let end = location.offset.checked_add(block.size);
    let chunk = placement.chunks.get(location.chunk as usize);
    if !matches!((end, chunk), (Some(end), Some(&size)) if end <= size) {
        return Err(Defect::OutOfChunk(block_id(id)));
    }
    if !location.offset.is_multiple_of(problem.alignment()) {
        return Err(Defect::Misaligned(block_id(id)));
    }
    Ok(())
}

fn check_chunk(problem: &Problem, placement: &Placement, chunk: usize) -> Result<(), Defect> {
    let Some(max) = problem.max_chunk() else { return Ok(()) };
    let largest_block = (problem.blocks().iter().zip(&placement.locations))
        .filter(|(_, location)| location.chunk as usize == chunk)
        .map(|(block, _)| block.size)
        .max();
    let allowed = max.max(largest_block.unwrap_or(0));
    let unbounded = chunk == MAX_CHUNKS - 1;
    if placement.chunks[chunk] > allowed && !unbounded { Err(Defect::ChunkTooLarge(chunk)) } else { Ok(()) }
}

fn check_pair(placement: &Placement, rectangles: &[Vec<Rectangle>], a: usize, b: usize) -> Result<(), Defect> {
    if placement.locations[a].chunk != placement.locations[b].chunk {
        return Ok(());
    }
    for &(from_a, until_a, size_a) in &rectangles[a] {
        for &(from_b, until_b, size_b) in &rectangles[b] {
            let together = from_a.max(from_b)..until_a.min(until_b);
            let (at_a, at_b) = (placement.locations[a].offset, placement.locations[b].offset);
            let bytes = at_a.max(at_b)..(at_a + size_a).min(at_b + size_b);
            if !together.is_empty() && !bytes.is_empty() {
                return Err(Defect::Overlap { first: block_id(a), second: block_id(b), step: together.start });
            }
        }
    }
    Ok(())
}

/// A half-open range of steps, and the bytes that a block holds during it.
type Rectangle = (Step, Step, Bytes);

/// Returns the rectangles of each block.
fn rectangles(problem: &Problem) -> Vec<Vec<Rectangle>> {
    let blocks = problem.blocks().iter();
    let mut rectangles: Vec<_> =
        blocks.map(|&Block { size, first_step, end_step }| vec![(first_step, end_step, size)]).collect();
    for shrink in problem.shrinks() {
        let rectangles = &mut rectangles[shrink.block as usize];
        if let Some(last) = rectangles.last_mut() {
            let end_step = std::mem::replace(&mut last.1, shrink.step);
            rectangles.push((shrink.step, end_step, shrink.size));
        }
    }
    rectangles
}

/// An end of a rectangle. At equal steps ends sort before starts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Boundary {
    End,
    Start,
}

/// Sweeps over the steps with the live rectangles in the order of their offsets. A rectangle overlaps none of them if it
/// overlaps neither neighbour.
fn check_overlaps(placement: &Placement, rectangles: &[Vec<Rectangle>]) -> Result<(), Defect> {
    let mut boundaries = Vec::with_capacity(2 * rectangles.len());
    for (id, rectangles) in rectangles.iter().enumerate() {
        for &(from, until, size) in rectangles.iter().filter(|&&(from, until, size)| from < until && size > 0) {
            boundaries.push((from, Boundary::Start, id, size));
            boundaries.push((until, Boundary::End, id, size));
        }
    }
    boundaries.sort_unstable();
    let mut live: BTreeMap<(ChunkId, Offset), (Offset, usize)> = BTreeMap::new();
    for (step, boundary, id, size) in boundaries {
        let Location { chunk, offset } = placement.locations[id];
        if boundary == Boundary::End {
            live.remove(&(chunk, offset));
            continue;
        }
        let end = offset + size;
        let below = live.range(..(chunk, end)).next_back().filter(|&(&at, &(top, _))| at.0 == chunk && top > offset);
        if let Some((_, &(_, other))) = below {
            return Err(Defect::Overlap { first: block_id(other.min(id)), second: block_id(other.max(id)), step });
        }
        live.insert((chunk, offset), (end, id));
    }
    Ok(())
}

fn block_id(index: usize) -> BlockId {
    BlockId::try_from(index).unwrap_or(BlockId::MAX)
}
