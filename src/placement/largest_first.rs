//! The offline strategy of most compilers: one block after the other, the weightiest first, each into the gap that
//! fits best among the blocks placed before it.

use super::conflicts::{Conflicts, count_conflicts};
use super::{Block, BlockId, Bytes, ChunkId, MAX_CHUNKS, Offset, Placement, Problem, Spot, Strategy};

/// Beyond this many pairs of blocks that are alive together, which are listed, other strategies take over: 64 MiB.
const MOST_CONFLICTS: u64 = 1 << 22;

/// Places blocks in the order of their weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LargestFirst {
    /// The weight is the size.
    Size,
    /// The weight is the size times the length of the lifetime.
    Area,
    /// The weight is the length of the lifetime.
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
        count_conflicts(problem) <= MOST_CONFLICTS
    }

    fn place(&self, problem: &Problem) -> Placement {
        let conflicts = Conflicts::of(problem);
        let mut board = Board::new(problem);
        for id in self.order(problem.blocks()) {
            board.put(id, conflicts.neighbours(id));
        }
        board.finish()
    }
}

impl LargestFirst {
    /// Weightiest first; of equal ones the earlier first.
    fn order(self, blocks: &[Block]) -> Vec<BlockId> {
        let keys = (0 as BlockId..).zip(blocks).map(|(id, block)| self.weight(block) << 32 | u128::from(!id));
        let mut keys: Vec<u128> = keys.collect();
        keys.sort_unstable_by(|a, b| b.cmp(a));
        keys.into_iter().map(|key| !low_half(key)).collect()
    }

    /// At most 96 bits, since sizes are below 2^63: the weight, and below it what decides between equal weights.
    fn weight(self, block: &Block) -> u128 {
        let (size, length) = (u128::from(block.size), u128::from(block.death - block.birth));
        match self {
            Self::Size => size << 32 | length,
            Self::Area => size * length,
            Self::Length => length << 64 | size,
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the low half is what is wanted")]
fn low_half(key: u128) -> BlockId {
    key as BlockId
}

/// The blocks that have a spot so far.
struct Board<'p> {
    problem: &'p Problem,
    spots: Vec<Option<Spot>>,
    capacities: Vec<Bytes>,
    peaks: Vec<Bytes>,
    /// The ranges that neighbours take in one chunk; kept for its memory.
    taken: Vec<(Offset, Offset)>,
}

impl<'p> Board<'p> {
    fn new(problem: &'p Problem) -> Self {
        let spots = vec![None; problem.blocks().len()];
        Self { problem, spots, capacities: Vec::new(), peaks: Vec::new(), taken: Vec::new() }
    }

    fn put(&mut self, id: BlockId, neighbours: &[BlockId]) {
        let size = self.problem.blocks()[id as usize].size;
        let spot = self.find(size, neighbours).unwrap_or_else(|| self.grow(size));
        let peak = &mut self.peaks[spot.chunk as usize];
        *peak = (*peak).max(spot.offset + size);
        self.spots[id as usize] = Some(spot);
    }

    /// The tightest gap in the first chunk with a gap, else the first chunk whose rest is large enough.
    fn find(&mut self, size: Bytes, neighbours: &[BlockId]) -> Option<Spot> {
        let mut rest = None;
        for chunk in (0..).take(self.capacities.len()) {
            self.collect_taken(chunk, neighbours);
            let (gap, top) = tightest_gap(&self.taken, size);
            if let Some(offset) = gap {
                return Some(Spot { chunk, offset });
            }
            if rest.is_none() && top + size <= self.capacities[chunk as usize] {
                rest = Some(Spot { chunk, offset: top });
            }
        }
        rest
    }

    fn collect_taken(&mut self, chunk: ChunkId, neighbours: &[BlockId]) {
        self.taken.clear();
        for &id in neighbours {
            if let Some(spot) = self.spots[id as usize].filter(|spot| spot.chunk == chunk) {
                self.taken.push((spot.offset, spot.offset + self.problem.blocks()[id as usize].size));
            }
        }
        self.taken.sort_unstable();
    }

    fn grow(&mut self, size: Bytes) -> Spot {
        let unlimited = Bytes::MAX / 2;
        let last = self.capacities.len() == MAX_CHUNKS - 1;
        let limit = self.problem.max_chunk().filter(|_| !last).unwrap_or(unlimited);
        self.capacities.push(limit.max(size));
        self.peaks.push(0);
        Spot { chunk: ChunkId::try_from(self.capacities.len() - 1).expect("at most 16 chunks"), offset: 0 }
    }

    fn finish(self) -> Placement {
        Placement { spots: self.spots.into_iter().map(Option::unwrap_or_default).collect(), chunks: self.peaks }
    }
}

/// The tightest gap of at least `size` bytes below a taken range, and the end of the last taken range.
fn tightest_gap(taken: &[(Offset, Offset)], size: Bytes) -> (Option<Offset>, Offset) {
    let (mut gap, mut gap_size, mut top) = (None, Bytes::MAX, 0);
    for &(start, end) in taken {
        if start > top && start - top >= size && start - top < gap_size {
            gap = Some(top);
            gap_size = start - top;
        }
        top = top.max(end);
    }
    (gap, top)
}
