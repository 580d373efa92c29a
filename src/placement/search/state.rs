//! Where a search stands: the skyline, what is still to be placed, and how to take steps back.

use super::columns::Columns;

/// The reach of a bar that is placed, and the skyline of a column in which every bar is.
pub const DONE: u64 = u64::MAX;

/// The first row of the table of cells for each kind of number.
struct Rows {
    ceiling: usize,
    slack: usize,
    waiting: usize,
    crossing: usize,
    watch: usize,
    reach: usize,
}

/// Numbers that change during the search, and their old values.
pub struct State {
    rows: Rows,
    cells: Vec<u64>,
    /// Cells and what they held before, in the order of the changes.
    trail: Vec<(usize, u64)>,
}

impl State {
    /// Nothing is placed.
    pub fn new(columns: &Columns, capacity: u64) -> Self {
        let count = columns.count() as usize;
        let rows = Rows {
            ceiling: count,
            slack: 2 * count,
            waiting: 3 * count,
            crossing: 4 * count,
            watch: 5 * count,
            reach: 6 * count,
        };
        let mut cells = vec![0; 6 * count + columns.bars.len()];
        cells[rows.ceiling..rows.waiting].fill(capacity);
        for (id, bar) in (0..).zip(&columns.bars) {
            let span = bar.left as usize..bar.right as usize;
            for column in span.clone() {
                cells[rows.slack + column] = cells[rows.slack + column].wrapping_sub(bar.height);
            }
            for column in span.skip(1) {
                cells[rows.crossing + column] += 1;
            }
            cells[rows.waiting + bar.left as usize] ^= name(columns, id);
        }
        for column in 0..columns.count() {
            cells[rows.watch + column as usize] = columns.alive(column)[0].into();
        }
        Self { rows, cells, trail: Vec::new() }
    }

    fn set(&mut self, cell: usize, value: u64) {
        let old = std::mem::replace(&mut self.cells[cell], value);
        self.trail.push((cell, old));
    }

    /// What [`State::undo`] takes to come back to here.
    pub fn mark(&self) -> usize {
        self.trail.len()
    }

    /// Takes back everything since `mark`.
    pub fn undo(&mut self, mark: usize) {
        while self.trail.len() > mark {
            if let Some((cell, old)) = self.trail.pop() {
                self.cells[cell] = old;
            }
        }
    }

    /// Below this height nothing can be placed any more.
    pub fn sky(&self, column: u32) -> u64 {
        self.cells[column as usize]
    }

    /// Nothing may be placed above this height.
    pub fn ceiling(&self, column: u32) -> u64 {
        self.cells[self.rows.ceiling + column as usize]
    }

    /// How many units may stay empty between skyline and ceiling.
    pub fn slack(&self, column: u32) -> u64 {
        self.cells[self.rows.slack + column as usize]
    }

    /// A number for the set of bars that start here and wait.
    pub fn waiting(&self, column: u32) -> u64 {
        self.cells[self.rows.waiting + column as usize]
    }

    /// How many waiting bars cover both this column and the one before it.
    pub fn crossing(&self, column: u32) -> u64 {
        self.cells[self.rows.crossing + column as usize]
    }

    /// The lowest offset at which a bar may lie, or [`DONE`].
    pub fn reach(&self, bar: u32) -> u64 {
        self.cells[self.rows.reach + bar as usize]
    }

    /// A waiting bar of the column that can lie on the skyline, as long as nothing is left to conclude.
    pub fn watch(&self, column: u32) -> u64 {
        self.cells[self.rows.watch + column as usize]
    }

    pub fn set_watch(&mut self, column: u32, bar: u64) {
        self.set(self.rows.watch + column as usize, bar);
    }

    pub fn set_sky(&mut self, column: u32, sky: u64) {
        self.set(column as usize, sky);
    }

    pub fn set_slack(&mut self, column: u32, slack: u64) {
        self.set(self.rows.slack + column as usize, slack);
    }

    pub fn set_ceiling(&mut self, column: u32, ceiling: u64) {
        self.set(self.rows.ceiling + column as usize, ceiling);
    }

    pub fn set_reach(&mut self, bar: u32, reach: u64) {
        self.set(self.rows.reach + bar as usize, reach);
    }

    /// Takes a bar out of those that wait.
    pub fn take(&mut self, columns: &Columns, id: u32) {
        let bar = columns.bars[id as usize];
        self.set_reach(id, DONE);
        let waiting = self.rows.waiting + bar.left as usize;
        self.set(waiting, self.cells[waiting] ^ name(columns, id));
        for column in bar.left + 1..bar.right {
            let crossing = self.rows.crossing + column as usize;
            self.set(crossing, self.cells[crossing] - 1);
        }
    }
}

/// A number of its own for each bar that starts in the same column: a bit, and only beyond 64 bars a random number.
fn name(columns: &Columns, id: u32) -> u64 {
    let place = id - columns.starting(columns.bars[id as usize].left).start;
    if place < u64::BITS { 1 << place } else { next_random(&mut u64::from(place)) }
}

/// SplitMix64.
pub fn next_random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut bits = *seed;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}
