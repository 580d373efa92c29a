//! The state of a search: skyline, ceiling and unplaced bars, with a trail for backtracking.

use super::columns::Columns;

/// The least offset of a placed bar, and the skyline of a column whose bars are all placed: above every height.
pub const DONE: u64 = u64::MAX;

/// Where each kind of number starts in the list of cells.
struct CellStarts {
    ceiling: usize,
    slack: usize,
    unplaced: usize,
    crossing: usize,
    watch: usize,
    least_offset: usize,
}

/// Numbers that change during the search, and their previous values.
pub struct SearchState {
    starts: CellStarts,
    cells: Vec<u64>,
    /// Cells and their previous values, in the order of the changes.
    trail: Vec<(usize, u64)>,
}

impl SearchState {
    /// Creates the state in which no bar is placed.
    pub fn new(columns: &Columns, capacity: u64) -> Self {
        let count = columns.count() as usize;
        let starts = CellStarts {
            ceiling: count,
            slack: 2 * count,
            unplaced: 3 * count,
            crossing: 4 * count,
            watch: 5 * count,
            least_offset: 6 * count,
        };
        let mut cells = vec![0; 6 * count + columns.bars.len()];
        cells[starts.ceiling..starts.slack].fill(capacity);
        for (slack, live) in cells[starts.slack..starts.unplaced].iter_mut().zip(columns.live_units()) {
            *slack = capacity - live;
        }
        for (id, bar) in (0..).zip(&columns.bars) {
            for column in bar.left as usize + 1..bar.right as usize {
                cells[starts.crossing + column] += 1;
            }
            cells[starts.unplaced + bar.left as usize] ^= key(columns, id);
        }
        for column in 0..columns.count() {
            cells[starts.watch + column as usize] = columns.covering(column)[0].into();
        }
        Self { starts, cells, trail: Vec::new() }
    }

    fn set(&mut self, cell: usize, value: u64) {
        let old = std::mem::replace(&mut self.cells[cell], value);
        self.trail.push((cell, old));
    }

    /// Returns a mark with which [`SearchState::undo`] restores the current state.
    pub fn mark(&self) -> usize {
        self.trail.len()
    }

    /// Undoes all changes since `mark`.
    pub fn undo(&mut self, mark: usize) {
        while self.trail.len() > mark {
            if let Some((cell, old)) = self.trail.pop() {
                self.cells[cell] = old;
            }
        }
    }

    /// Returns the height below which no bar can be placed any more.
    pub fn skyline(&self, column: u32) -> u64 {
        self.cells[column as usize]
    }

    /// Returns the height above which no bar can be placed any more.
    pub fn ceiling(&self, column: u32) -> u64 {
        self.cells[self.starts.ceiling + column as usize]
    }

    /// Returns how many units between skyline and ceiling may stay empty.
    pub fn slack(&self, column: u32) -> u64 {
        self.cells[self.starts.slack + column as usize]
    }

    /// Returns a key of the set of unplaced bars that start in a column.
    pub fn unplaced_key(&self, column: u32) -> u64 {
        self.cells[self.starts.unplaced + column as usize]
    }

    /// Returns how many unplaced bars cover both this column and the one before it.
    pub fn crossing(&self, column: u32) -> u64 {
        self.cells[self.starts.crossing + column as usize]
    }

    /// Returns the least offset that is possible for a bar, or [`DONE`] if it is placed.
    pub fn least_offset(&self, bar: u32) -> u64 {
        self.cells[self.starts.least_offset + bar as usize]
    }

    /// Returns the watched bar of a column: an unplaced one that can lie on the skyline, once propagation has finished.
    pub fn watch(&self, column: u32) -> u64 {
        self.cells[self.starts.watch + column as usize]
    }

    pub fn set_watch(&mut self, column: u32, bar: u64) {
        self.set(self.starts.watch + column as usize, bar);
    }

    pub fn set_skyline(&mut self, column: u32, skyline: u64) {
        self.set(column as usize, skyline);
    }

    pub fn set_slack(&mut self, column: u32, slack: u64) {
        self.set(self.starts.slack + column as usize, slack);
    }

    pub fn set_ceiling(&mut self, column: u32, ceiling: u64) {
        self.set(self.starts.ceiling + column as usize, ceiling);
    }

    pub fn set_least_offset(&mut self, bar: u32, offset: u64) {
        self.set(self.starts.least_offset + bar as usize, offset);
    }

    /// Marks a bar as placed.
    pub fn mark_placed(&mut self, columns: &Columns, id: u32) {
        let bar = columns.bars[id as usize];
        self.set_least_offset(id, DONE);
        let unplaced = self.starts.unplaced + bar.left as usize;
        self.set(unplaced, self.cells[unplaced] ^ key(columns, id));
        for column in bar.left + 1..bar.right {
            let crossing = self.starts.crossing + column as usize;
            self.set(crossing, self.cells[crossing] - 1);
        }
    }
}

/// Returns the key of a bar among those that start in the same column: a bit, and beyond 64 bars a random number.
fn key(columns: &Columns, id: u32) -> u64 {
    let index = id - columns.starting(columns.bars[id as usize].left).start;
    if index < u64::BITS { 1 << index } else { next_random(&mut u64::from(index)) }
}

/// Returns the next number of SplitMix64.
pub fn next_random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut bits = *seed;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}
