//! The blocks without a location, in a tree over their births.

use crate::placement::moments::Moment;

const BITS: u32 = 3;
const WIDTH: usize = 1 << BITS;
const LAST: Moment = (1 << BITS) - 1;

/// What stands where nobody waits.
const NOBODY: u32 = u32::MAX;

/// Eight neighbours in a level of the tree, in one line of the cache: by each the least end_step and the least rank of
/// those who wait below it.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Row {
    deaths: [Moment; WIDTH],
    ranks: [u32; WIDTH],
}

impl Row {
    const EMPTY: Self = Self { deaths: [NOBODY; WIDTH], ranks: [NOBODY; WIDTH] };

    fn set(&mut self, slot: usize, (end_step, rank): (Moment, u32)) {
        self.deaths[slot] = end_step;
        self.ranks[slot] = rank;
    }

    /// One bit by slot: may there be someone below it who is dead by `end` and comes before `rank`?
    fn slots_with(&self, end: Moment, rank: u32) -> u32 {
        let mut slots = 0;
        for slot in 0..WIDTH {
            let fits = (self.deaths[slot] <= end) & (self.ranks[slot] < rank);
            slots |= u32::from(fits) << slot;
        }
        slots
    }

    fn least(&self) -> (Moment, u32) {
        let least = |numbers: &[u32; WIDTH]| numbers.iter().copied().fold(NOBODY, u32::min);
        (least(&self.deaths), least(&self.ranks))
    }
}

/// The blocks without a location.
#[derive(Debug)]
pub struct Waiting {
    /// The blocks themselves first, one row only last.
    levels: Vec<Vec<Row>>,
    left: usize,
}

/// How many rows a search looks at before it takes the best block so far. The tree leads straight to a block that fits,
/// but can lead astray on the way to the best of them: where the best-ranked blocks are those that do not fit.
const MOST_ROWS: u32 = 256;

/// Who is looked for, and the best one so far.
struct Wanted {
    /// Born in `first..=last`.
    first: Moment,
    last: Moment,
    /// Dead by then.
    end: Moment,
    rank: u32,
    id: Moment,
    rows_left: u32,
}

impl Waiting {
    /// By block its end_step and its rank; all wait.
    pub fn new(deaths: &[Moment], ranks: &[u32]) -> Self {
        let mut level = rows(deaths.iter().copied().zip(ranks.iter().copied()));
        let mut levels = Vec::new();
        while level.len() > 1 {
            let above = rows(level.iter().map(Row::least));
            levels.push(std::mem::replace(&mut level, above));
        }
        levels.push(level);
        Self { levels, left: deaths.len() }
    }

    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Takes out the block of the least rank among those that live within `start..end`.
    pub fn take_best(&mut self, start: Moment, end: Moment) -> Option<usize> {
        let mut wanted = Wanted { first: start, last: end - 1, end, rank: NOBODY, id: 0, rows_left: MOST_ROWS };
        let level = lowest_common_level(wanted.first, wanted.last);
        self.search(level, wanted.first >> (BITS * level) >> BITS, &mut wanted);
        if wanted.rank == NOBODY {
            return None;
        }
        self.remove(wanted.id);
        Some(wanted.id as usize)
    }

    fn search(&self, level: u32, row: Moment, wanted: &mut Wanted) {
        wanted.rows_left = wanted.rows_left.saturating_sub(1);
        let shift = BITS * level;
        let base = row << BITS;
        let from = (wanted.first >> shift).saturating_sub(base);
        let until = ((wanted.last >> shift) - base).min(LAST);
        let row = &self.levels[level as usize][row as usize];
        let mut slots = row.slots_with(wanted.end, wanted.rank) & (u32::MAX << from) & (u32::MAX >> (31 - until));
        while slots != 0 {
            let slot = slots.trailing_zeros();
            slots &= slots - 1;
            let rank = row.ranks[slot as usize];
            if rank >= wanted.rank {
                continue;
            }
            if level == 0 {
                wanted.rank = rank;
                wanted.id = base + slot;
            } else if wanted.rows_left > 0 || wanted.rank == NOBODY {
                self.search(level - 1, base + slot, wanted);
            }
        }
    }

    fn remove(&mut self, id: Moment) {
        self.left -= 1;
        let mut at = id as usize;
        let mut least = (NOBODY, NOBODY);
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

/// The lowest level at which two blocks stand in the same row.
fn lowest_common_level(a: Moment, b: Moment) -> u32 {
    let differing_bits = Moment::BITS - (a ^ b).leading_zeros();
    differing_bits.saturating_sub(1) / BITS
}

fn rows(entries: impl Iterator<Item = (Moment, u32)>) -> Vec<Row> {
    let mut rows = Vec::with_capacity(entries.size_hint().0 / WIDTH + 1);
    for (number, entry) in entries.enumerate() {
        if number % WIDTH == 0 {
            rows.push(Row::EMPTY);
        }
        if let Some(row) = rows.last_mut() {
            row.set(number % WIDTH, entry);
        }
    }
    rows
}
