//! The offline strategy of most compilers: greedy by size. Blocks are placed one after the other, the largest first,
//! each into the best-fitting gap between the blocks placed before it.

use super::interference::{Interference, has_few_overlaps};
use super::{Block, BlockId, Bytes, ChunkId, Location, MAX_CHUNKS, Placement, Problem, Strategy};

/// The most pairs of overlapping live ranges that are listed: 16 MiB.
const MOST_OVERLAPS: u64 = 1 << 22;

/// Places blocks in the order of their weights, the largest first.
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
        Unit::of(problem).fits_all(problem) && has_few_overlaps(problem, MOST_OVERLAPS)
    }

    fn place(&self, problem: &Problem) -> Placement {
        let interference = Interference::of(problem);
        let mut placed = PlacedBlocks::new(problem);
        for id in self.order(problem.blocks(), &interference, placed.unit) {
            placed.add(id, &interference);
        }
        placed.into_placement()
    }
}

impl LargestFirst {
    /// All weights.
    pub const ALL: [Self; 3] = [Self::Size, Self::Area, Self::Length];

    /// Returns the blocks by descending weight; among equal weights the earlier block first. Blocks that interfere with
    /// nearly all others come before them: at the bottom they split no gap, and later finding a gap for them is slow.
    fn order(self, blocks: &[Block], interference: &Interference, unit: Unit) -> Vec<BlockId> {
        let key = |(id, block)| {
            let is_everywhere = 10 * interference.count(id) > 9 * blocks.len();
            (!is_everywhere, !self.weight(block, unit), id)
        };
        let mut keys: Vec<(bool, u64, BlockId)> = (0 as BlockId..).zip(blocks).map(key).collect();
        keys.sort_unstable();
        keys.into_iter().map(|(_, _, id)| id).collect()
    }

    /// Returns the weight, with a tie-breaker in the lower half where there is one.
    fn weight(self, block: &Block, unit: Unit) -> u64 {
        let (size, length) = (u64::from(unit.count(block.size)), u64::from(block.end_step - block.first_step));
        match self {
            Self::Size => size << 32 | length,
            Self::Area => size * length,
            Self::Length => length << 32 | size,
        }
    }
}

/// The largest power of two that divides all sizes. Counted in units, a range of bytes fits into one word.
#[derive(Clone, Copy)]
struct Unit {
    shift: u32,
}

impl Unit {
    fn of(problem: &Problem) -> Self {
        let bits = problem.blocks().iter().fold(0, |bits, block| bits | block.size);
        Self { shift: if bits == 0 { 0 } else { bits.trailing_zeros() } }
    }

    /// Returns `true` if every possible offset fits into 32 bits.
    fn fits_all(self, problem: &Problem) -> bool {
        problem.total() >> self.shift <= Bytes::from(u32::MAX)
    }

    fn count(self, bytes: Bytes) -> u32 {
        u32::try_from(bytes >> self.shift).expect("the strategy suits the problem")
    }

    fn bytes(self, count: u32) -> Bytes {
        Bytes::from(count) << self.shift
    }
}

/// The range of a placed block in its chunk, in units: the start in the upper half and the end in the lower, so that
/// numbers sort as the ranges do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct UsedRange(u64);

impl UsedRange {
    /// The range of a block that is not placed, or has no bytes.
    const EMPTY: Self = Self(0);

    fn new(start: u32, size: u32) -> Self {
        if size == 0 { Self::EMPTY } else { Self(u64::from(start) << 32 | u64::from(start + size)) }
    }

    #[allow(clippy::cast_possible_truncation, reason = "splits the number into its halves")]
    fn range(self) -> (u32, u32) {
        ((self.0 >> 32) as u32, self.0 as u32)
    }
}

/// The blocks placed so far.
struct PlacedBlocks<'p> {
    problem: &'p Problem,
    unit: Unit,
    /// By block.
    used: Vec<UsedRange>,
    /// By block.
    chunks: Vec<ChunkId>,
    /// By chunk, in units; `None` without a limit.
    capacities: Vec<Option<u32>>,
    /// By chunk, in units.
    peaks: Vec<u32>,
    /// The ranges of interfering blocks in one chunk, sorted; kept to reuse its memory.
    obstacles: Vec<UsedRange>,
}

impl<'p> PlacedBlocks<'p> {
    fn new(problem: &'p Problem) -> Self {
        let count = problem.blocks().len();
        Self {
            problem,
            unit: Unit::of(problem),
            used: vec![UsedRange::EMPTY; count],
            chunks: vec![0; count],
            capacities: Vec::new(),
            peaks: Vec::new(),
            obstacles: Vec::new(),
        }
    }

    fn add(&mut self, id: BlockId, interference: &Interference) {
        let size = self.unit.count(self.problem.blocks()[id as usize].size);
        let (chunk, offset) = self.find_gap(id, size, interference).unwrap_or_else(|| self.grow(size));
        let peak = &mut self.peaks[chunk as usize];
        *peak = (*peak).max(offset + size);
        self.used[id as usize] = UsedRange::new(offset, size);
        self.chunks[id as usize] = chunk;
    }

    /// Returns the tightest gap in the first chunk with a gap, else the first chunk whose rest is large enough.
    fn find_gap(&mut self, id: BlockId, size: u32, interference: &Interference) -> Option<(ChunkId, u32)> {
        let mut rest = None;
        for chunk in (0..).take(self.capacities.len()) {
            self.collect_obstacles(id, chunk, interference);
            let (gap, top) = tightest_gap(&self.obstacles, size);
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

    fn collect_obstacles(&mut self, id: BlockId, chunk: ChunkId, interference: &Interference) {
        let Self { used, chunks, obstacles, .. } = self;
        let (before, after) = (interference.before(id), interference.after(id));
        let after = after.start as usize..after.end as usize;
        obstacles.clear();
        let ids = before.iter().map(|&id| id as usize).chain(after);
        let here = ids.filter(|&id| chunks[id] == chunk).map(|id| used[id]);
        obstacles.extend(here.filter(|&range| range != UsedRange::EMPTY));
        obstacles.sort_unstable();
    }

    fn grow(&mut self, size: u32) -> (ChunkId, u32) {
        let is_last = self.capacities.len() == MAX_CHUNKS - 1;
        let limit = self.problem.max_chunk().filter(|_| !is_last);
        let limit = limit.and_then(|limit| u32::try_from(limit >> self.unit.shift).ok());
        self.capacities.push(limit.map(|limit| limit.max(size)));
        self.peaks.push(0);
        (ChunkId::try_from(self.capacities.len() - 1).expect("at most 16 chunks"), 0)
    }

    fn into_placement(self) -> Placement {
        let unit = self.unit;
        let locations = self.used.iter().zip(&self.chunks);
        let locations = locations.map(|(used, &chunk)| Location { chunk, offset: unit.bytes(used.range().0) });
        Placement { locations: locations.collect(), chunks: self.peaks.iter().map(|&peak| unit.bytes(peak)).collect() }
    }
}

/// Returns the start of the tightest gap of at least `size` units below an obstacle, and the end of the highest
/// obstacle.
fn tightest_gap(obstacles: &[UsedRange], size: u32) -> (Option<u32>, u32) {
    let (mut gap, mut gap_size, mut top) = (None, u32::MAX, 0);
    for (start, end) in obstacles.iter().map(|obstacle| obstacle.range()) {
        if start > top && start - top >= size && start - top < gap_size {
            gap = Some(top);
            gap_size = start - top;
        }
        top = top.max(end);
    }
    (gap, top)
}
