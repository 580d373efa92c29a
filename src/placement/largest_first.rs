//! The offline strategy of most compilers: one block after the other, the weightiest first, each into the gap that
//! fits best among the blocks placed before it.

use super::conflicts::{Conflicts, has_few_conflicts};
use super::{Block, BlockId, Bytes, ChunkId, Location, MAX_CHUNKS, Placement, Problem, Strategy};

/// Beyond this many pairs of blocks that are alive together, which are listed, other strategies take over: 16 MiB.
const MOST_CONFLICTS: u64 = 1 << 22;

/// Places blocks in the order of their weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LargestFirst {
    /// The weight is the size.
    Size,
    /// The weight is the size times the length of the live range.
    Area,
    /// The weight is the length of the live range.
    Length,
}

impl Strategy for LargestFirst {
    fn name(&self) -> &'static str {
        match self {
            Self::Size => "largest first",
            Self::Area => "largest area first",
            Self::Length => "longest first",
        }
    }

    fn suits(&self, problem: &Problem) -> bool {
        Unit::of(problem).counts_all(problem) && has_few_conflicts(problem, MOST_CONFLICTS)
    }

    fn place(&self, problem: &Problem) -> Placement {
        let conflicts = Conflicts::of(problem);
        let mut board = Board::new(problem);
        for id in self.order(problem.blocks(), &conflicts, board.unit) {
            board.put(id, &conflicts);
        }
        board.finish()
    }
}

impl LargestFirst {
    /// Weightiest first; of equal ones the earlier first. What lives beside nearly all others goes before them, below
    /// everything: there it is in nobody's way, and later its place among so many would be long to find.
    fn order(self, blocks: &[Block], conflicts: &Conflicts, unit: Unit) -> Vec<BlockId> {
        let key = |(id, block)| {
            let is_everywhere = 10 * conflicts.count(id) > 9 * blocks.len();
            (!is_everywhere, !self.weight(block, unit), id)
        };
        let mut keys: Vec<(bool, u64, BlockId)> = (0 as BlockId..).zip(blocks).map(key).collect();
        keys.sort_unstable();
        keys.into_iter().map(|(_, _, id)| id).collect()
    }

    /// What decides, and below it what decides between equal ones.
    fn weight(self, block: &Block, unit: Unit) -> u64 {
        let (size, length) = (u64::from(unit.count(block.size)), u64::from(block.end_step - block.first_step));
        match self {
            Self::Size => size << 32 | length,
            Self::Area => size * length,
            Self::Length => length << 32 | size,
        }
    }
}

/// The largest power of two that all sizes are multiples of: in its multiples a range of bytes is one word.
#[derive(Clone, Copy)]
struct Unit {
    shift: u32,
}

impl Unit {
    fn of(problem: &Problem) -> Self {
        let bits = problem.blocks().iter().fold(0, |bits, block| bits | block.size);
        Self { shift: if bits == 0 { 0 } else { bits.trailing_zeros() } }
    }

    /// Can every offset that a strategy may come to be told by 32 bits?
    fn counts_all(self, problem: &Problem) -> bool {
        problem.total() >> self.shift <= Bytes::from(u32::MAX)
    }

    fn count(self, bytes: Bytes) -> u32 {
        u32::try_from(bytes >> self.shift).expect("the strategy suits the problem")
    }

    fn bytes(self, count: u32) -> Bytes {
        Bytes::from(count) << self.shift
    }
}

/// Where a block lies in its chunk, in units: the end below the start, so that numbers are sorted as the ranges are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Taken(u64);

impl Taken {
    /// Of a block without a location, or without bytes.
    const NOTHING: Self = Self(0);

    fn new(start: u32, size: u32) -> Self {
        if size == 0 { Self::NOTHING } else { Self(u64::from(start) << 32 | u64::from(start + size)) }
    }

    #[allow(clippy::cast_possible_truncation, reason = "the halves are what is wanted")]
    fn range(self) -> (u32, u32) {
        ((self.0 >> 32) as u32, self.0 as u32)
    }
}

/// The blocks that have a location so far.
struct Board<'p> {
    problem: &'p Problem,
    unit: Unit,
    /// By block.
    taken: Vec<Taken>,
    /// By block.
    chunks: Vec<ChunkId>,
    /// By chunk, in units; `None` without a limit.
    capacities: Vec<Option<u32>>,
    /// By chunk, in units.
    peaks: Vec<u32>,
    /// What the neighbours of one block take in one chunk; kept for its memory.
    walls: Vec<Taken>,
}

impl<'p> Board<'p> {
    fn new(problem: &'p Problem) -> Self {
        let count = problem.blocks().len();
        Self {
            problem,
            unit: Unit::of(problem),
            taken: vec![Taken::NOTHING; count],
            chunks: vec![0; count],
            capacities: Vec::new(),
            peaks: Vec::new(),
            walls: Vec::new(),
        }
    }

    fn put(&mut self, id: BlockId, conflicts: &Conflicts) {
        let size = self.unit.count(self.problem.blocks()[id as usize].size);
        let (chunk, offset) = self.find(id, size, conflicts).unwrap_or_else(|| self.grow(size));
        let peak = &mut self.peaks[chunk as usize];
        *peak = (*peak).max(offset + size);
        self.taken[id as usize] = Taken::new(offset, size);
        self.chunks[id as usize] = chunk;
    }

    /// The tightest gap in the first chunk with a gap, else the first chunk whose rest is large enough.
    fn find(&mut self, id: BlockId, size: u32, conflicts: &Conflicts) -> Option<(ChunkId, u32)> {
        let mut rest = None;
        for chunk in (0..).take(self.capacities.len()) {
            self.collect_walls(id, chunk, conflicts);
            let (gap, top) = tightest_gap(&self.walls, size);
            if let Some(offset) = gap {
                return Some((chunk, offset));
            }
            let has_room = self.capacities[chunk as usize].is_none_or(|capacity| top + size <= capacity);
            if rest.is_none() && has_room {
                rest = Some((chunk, top));
            }
        }
        rest
    }

    fn collect_walls(&mut self, id: BlockId, chunk: ChunkId, conflicts: &Conflicts) {
        let Self { taken, chunks, walls, .. } = self;
        let (before, after) = (conflicts.before(id), conflicts.after(id));
        let after = after.start as usize..after.end as usize;
        walls.clear();
        if self.capacities.len() == 1 {
            walls.resize(before.len() + after.len(), Taken::NOTHING);
            let count = keep_taken(walls, 0, before.iter().map(|&id| taken[id as usize]));
            let count = keep_taken(walls, count, taken[after].iter().copied());
            walls.truncate(count);
        } else {
            let ids = before.iter().map(|&id| id as usize).chain(after);
            let here = ids.filter(|&id| chunks[id] == chunk).map(|id| taken[id]);
            walls.extend(here.filter(|&taken| taken != Taken::NOTHING));
        }
        walls.sort_unstable();
    }

    fn grow(&mut self, size: u32) -> (ChunkId, u32) {
        let is_last = self.capacities.len() == MAX_CHUNKS - 1;
        let limit = self.problem.max_chunk().filter(|_| !is_last);
        let limit = limit.and_then(|limit| u32::try_from(limit >> self.unit.shift).ok());
        self.capacities.push(limit.map(|limit| limit.max(size)));
        self.peaks.push(0);
        (ChunkId::try_from(self.capacities.len() - 1).expect("at most 16 chunks"), 0)
    }

    fn finish(self) -> Placement {
        let unit = self.unit;
        let locations = self.taken.iter().zip(&self.chunks);
        let locations = locations.map(|(taken, &chunk)| Location { chunk, offset: unit.bytes(taken.range().0) });
        Placement { locations: locations.collect(), chunks: self.peaks.iter().map(|&peak| unit.bytes(peak)).collect() }
    }
}

/// Writes what is taken to `walls` from `count` on, and answers where it ends. Writes always and keeps sometimes, since
/// no processor could predict a branch here.
fn keep_taken(walls: &mut [Taken], mut count: usize, all: impl Iterator<Item = Taken>) -> usize {
    for taken in all {
        if let Some(wall) = walls.get_mut(count) {
            *wall = taken;
        }
        count += usize::from(taken != Taken::NOTHING);
    }
    count
}

/// The tightest gap of at least `size` units below a taken range, and the end of the last taken range.
fn tightest_gap(walls: &[Taken], size: u32) -> (Option<u32>, u32) {
    let (mut gap, mut gap_size, mut top) = (None, u32::MAX, 0);
    for (start, end) in walls.iter().map(|wall| wall.range()) {
        if start > top && start - top >= size && start - top < gap_size {
            gap = Some(top);
            gap_size = start - top;
        }
        top = top.max(end);
    }
    (gap, top)
}
