//! Is a placement right? Brute force over all pairs of blocks, on purpose: it shares no idea with any strategy.

use std::collections::BTreeMap;
use std::fmt;

use super::{Block, BlockId, Bytes, ChunkId, Location, MAX_CHUNKS, Offset, Placement, Problem, Step};

/// What is wrong with a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// There are not as many locations as blocks.
    WrongCount {
        /// How many blocks the problem has.
        blocks: usize,
        /// How many locations the placement has.
        locations: usize,
    },
    /// More chunks than a plan may have.
    TooManyChunks(usize),
    /// A block lies in a chunk that there is not, or beyond its end.
    OutOfChunk(BlockId),
    /// The offset of a block is no multiple of the alignment.
    Misaligned(BlockId),
    /// A chunk is larger than allowed, though it is not the last of all and holds more than one oversized block.
    ChunkTooLarge(usize),
    /// Two blocks that are alive at the same step share bytes.
    Overlap {
        /// The one.
        first: BlockId,
        /// The other.
        second: BlockId,
        /// A step at which both are alive.
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

/// Checks every rule that a placement has to keep.
///
/// # Errors
/// The first [`Defect`] found.
pub fn validate(problem: &Problem, placement: &Placement) -> Result<(), Defect> {
    check_counts(problem, placement)?;
    let pieces = pieces(problem);
    for id in 0..pieces.len() {
        check_location(problem, placement, id)?;
        for other in 0..id {
            check_pair(placement, &pieces, other, id)?;
        }
    }
    (0..placement.chunks.len()).try_for_each(|chunk| check_chunk(problem, placement, chunk))
}

/// The same for problems that are too large for all pairs: goes through time, and compares each block with those right
/// below and above it.
///
/// # Errors
/// One of the [`Defect`]s, not always the same one that [`validate`] finds first.
pub fn validate_large(problem: &Problem, placement: &Placement) -> Result<(), Defect> {
    check_counts(problem, placement)?;
    (0..problem.blocks().len()).try_for_each(|id| check_location(problem, placement, id))?;
    check_stacks(placement, &pieces(problem))?;
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
        return Err(Defect::OutOfChunk(name(id)));
    }
    if !location.offset.is_multiple_of(problem.alignment()) {
        return Err(Defect::Misaligned(name(id)));
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

fn check_pair(placement: &Placement, pieces: &[Vec<Piece>], a: usize, b: usize) -> Result<(), Defect> {
    if placement.locations[a].chunk != placement.locations[b].chunk {
        return Ok(());
    }
    for &(from_a, until_a, size_a) in &pieces[a] {
        for &(from_b, until_b, size_b) in &pieces[b] {
            let together = from_a.max(from_b)..until_a.min(until_b);
            let (at_a, at_b) = (placement.locations[a].offset, placement.locations[b].offset);
            let bytes = at_a.max(at_b)..(at_a + size_a).min(at_b + size_b);
            if !together.is_empty() && !bytes.is_empty() {
                return Err(Defect::Overlap { first: name(a), second: name(b), step: together.start });
            }
        }
    }
    Ok(())
}

/// From which step until before which step a block holds how many bytes.
type Piece = (Step, Step, Bytes);

/// By block its rectangles.
fn pieces(problem: &Problem) -> Vec<Vec<Piece>> {
    let blocks = problem.blocks().iter();
    let mut pieces: Vec<_> =
        blocks.map(|&Block { size, first_step, end_step }| vec![(first_step, end_step, size)]).collect();
    for shrink in problem.shrinks() {
        let pieces = &mut pieces[shrink.block as usize];
        if let Some(last) = pieces.last_mut() {
            let end_step = std::mem::replace(&mut last.1, shrink.step);
            pieces.push((shrink.step, end_step, shrink.size));
        }
    }
    pieces
}

/// What happens to a piece: ends come before starts at the same step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    End,
    Start,
}

/// Keeps the pieces alive in the order of their offsets: each is in nobody's way exactly when it is in the way of neither
/// neighbour.
fn check_stacks(placement: &Placement, pieces: &[Vec<Piece>]) -> Result<(), Defect> {
    let mut events = Vec::with_capacity(2 * pieces.len());
    for (id, pieces) in pieces.iter().enumerate() {
        for &(from, until, size) in pieces.iter().filter(|&&(from, until, size)| from < until && size > 0) {
            events.push((from, Event::Start, id, size));
            events.push((until, Event::End, id, size));
        }
    }
    events.sort_unstable();
    let mut alive: BTreeMap<(ChunkId, Offset), (Offset, usize)> = BTreeMap::new();
    for (step, event, id, size) in events {
        let Location { chunk, offset } = placement.locations[id];
        if event == Event::End {
            alive.remove(&(chunk, offset));
            continue;
        }
        let end = offset + size;
        let below = alive.range(..(chunk, end)).next_back().filter(|&(&at, &(top, _))| at.0 == chunk && top > offset);
        if let Some((_, &(_, other))) = below {
            return Err(Defect::Overlap { first: name(other.min(id)), second: name(other.max(id)), step });
        }
        alive.insert((chunk, offset), (end, id));
    }
    Ok(())
}

fn name(id: usize) -> BlockId {
    BlockId::try_from(id).unwrap_or(BlockId::MAX)
}
