//! The blocks that are not placed yet, in a tree over their starts.

use crate::placement::compressed::CompressedStep;

const BITS: u32 = 3;
const WIDTH: usize = 1 << BITS;
const LAST: CompressedStep = (1 << BITS) - 1;

/// The end and the rank of an empty slot: larger than any other.
const EMPTY: u32 = u32::MAX;

/// Eight neighbours in a level of the tree, in one cache line: for each the least end and the least rank of the
/// unplaced blocks below it.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct TreeRow {
    ends: [CompressedStep; WIDTH],
    ranks: [u32; WIDTH],
}

impl TreeRow {
    const EMPTY: Self = Self { ends: [EMPTY; WIDTH], ranks: [EMPTY; WIDTH] };

    fn set(&mut self, slot: usize, (end, rank): (CompressedStep, u32)) {
        self.ends[slot] = end;
        self.ranks[slot] = rank;
    }

    /// Returns a bit set of the slots below which a block may be that ends by `end` and ranks before `rank`.
    fn slots_with(&self, end: CompressedStep, rank: u32) -> u32 {
        let mut slots = 0;
        for slot in 0..WIDTH {
            let fits = (self.ends[slot] <= end) & (self.ranks[slot] < rank);
            slots |= u32::from(fits) << slot;
        }
        slots
    }

    fn least(&self) -> (CompressedStep, u32) {
        let least = |numbers: &[u32; WIDTH]| numbers.iter().copied().fold(EMPTY, u32::min);
        (least(&self.ends), least(&self.ranks))
    }
}

/// The blocks that are not placed yet.
#[derive(Debug)]
pub struct UnplacedBlocks {
    /// From the leaves, which are blocks, to the root, which is one row.
    levels: Vec<Vec<TreeRow>>,
    /// How many blocks are left.
    count: usize,
}

/// How many rows a query reads before it settles for the best block so far. The tree leads straight to a block that
/// fits, but the way to the best of them is long where most of the best-ranked blocks do not fit.
const MOST_ROWS: u32 = 256;

/// The condition of a query, and the best block so far.
struct Query {
    /// The block starts in `first..=last`.
    first: CompressedStep,
    last: CompressedStep,
    /// It ends by then.
    end: CompressedStep,
    /// The values of the best block so far.
    rank: u32,
    /// The best block so far.
    id: u32,
    rows_left: u32,
}

impl UnplacedBlocks {
    /// Creates the tree of all blocks, from their ends and ranks.
    pub fn new(ends: &[CompressedStep], ranks: &[u32]) -> Self {
        let mut level = rows(ends.iter().copied().zip(ranks.iter().copied()));
        let mut levels = Vec::new();
        while level.len() > 1 {
            let above = rows(level.iter().map(TreeRow::least));
            levels.push(std::mem::replace(&mut level, above));
        }
        levels.push(level);
        Self { levels, count: ends.len() }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Removes and returns the block of the least rank among those with a live range within `start..end`.
    pub fn take_best(&mut self, start: CompressedStep, end: CompressedStep) -> Option<usize> {
        let mut query = Query { first: start, last: end - 1, end, rank: EMPTY, id: 0, rows_left: MOST_ROWS };
        let level = lowest_common_level(query.first, query.last);
        self.search(level, query.first >> (BITS * level) >> BITS, &mut query);
        if query.rank == EMPTY {
            return None;
        }
        self.remove(query.id);
        Some(query.id as usize)
    }

    fn search(&self, level: u32, row: CompressedStep, query: &mut Query) {
        query.rows_left = query.rows_left.saturating_sub(1);
        let shift = BITS * level;
        let base = row << BITS;
        let from = (query.first >> shift).saturating_sub(base);
        let until = ((query.last >> shift) - base).min(LAST);
        let row = &self.levels[level as usize][row as usize];
        let mut slots = row.slots_with(query.end, query.rank) & (u32::MAX << from) & (u32::MAX >> (31 - until));
        while slots != 0 {
            let slot = slots.trailing_zeros();
            slots &= slots - 1;
            let rank = row.ranks[slot as usize];
            if rank >= query.rank {
                continue;
            }
            if level == 0 {
                query.rank = rank;
                query.id = base + slot;
            } else if query.rows_left > 0 || query.rank == EMPTY {
                self.search(level - 1, base + slot, query);
            }
        }
    }

    fn remove(&mut self, id: u32) {
        self.count -= 1;
        let mut at = id as usize;
        let mut least = (EMPTY, EMPTY);
        for level in &mut self.levels {
            let row = &mut level[at / WIDTH];
            let before = row.least();
            row.set(at % WIDTH, least);
            least = row.least();
            if least == before {
                return;
            }
            at /= WIDTH;
        }
    }
}

/// Returns the lowest level at which two blocks are in the same row.
fn lowest_common_level(a: CompressedStep, b: CompressedStep) -> u32 {
    let differing_bits = CompressedStep::BITS - (a ^ b).leading_zeros();
    differing_bits.saturating_sub(1) / BITS
}

fn rows(entries: impl Iterator<Item = (CompressedStep, u32)>) -> Vec<TreeRow> {
    let mut rows = Vec::with_capacity(entries.size_hint().0 / WIDTH + 1);
    for (number, entry) in entries.enumerate() {
        if number % WIDTH == 0 {
            rows.push(TreeRow::EMPTY);
        }
        if let Some(row) = rows.last_mut() {
            row.set(number % WIDTH, entry);
        }
    }
    rows
}
