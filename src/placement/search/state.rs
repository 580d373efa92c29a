//! The state of a search: skyline, ceiling and unplaced bars, with a trail for backtracking.

use super::columns::Columns;

/// The least offset of a placed bar, and the skyline of a column whose bars are all placed: above every height.
pub const DONE: u64 = u64::MAX;

/// A number that each column has.
#[derive(Clone, Copy)]
pub enum Of {
    /// The height below which no bar can be placed any more.
    Skyline,
    /// The height above which no bar can be placed any more.
    Ceiling,
    /// How many units between skyline and ceiling may stay empty.
    Slack,
    /// A key of the set of unplaced bars that start in the column.
    Unplaced,
    /// How many unplaced bars cover both the column and the one before it.
    Crossing,
    /// The watched bar: an unplaced one that can lie on the skyline, once propagation has finished.
    Watch,
}

/// The number of kinds of numbers.
const KINDS: usize = Of::Watch as usize + 1;

/// Numbers that change during the search, and their previous values.
pub struct SearchState {
    /// By kind and column; then by bar, the least offset.
    cells: Vec<u64>,
    columns: usize,
    /// Cells and their previous values, in the order of the changes.
    trail: Vec<(usize, u64)>,
}

impl SearchState {
    /// Creates the state in which no bar is placed.
    pub fn new(columns: &Columns, capacity: u64) -> Self {
        let count = columns.count() as usize;
        let cells = vec![0; KINDS * count + columns.bars.len()];
        let mut state = Self { cells, columns: count, trail: Vec::new() };
        for (column, &live) in (0..).zip(columns.live_units()) {
            *state.cell(Of::Ceiling, column) = capacity;
            *state.cell(Of::Slack, column) = capacity - live;
            *state.cell(Of::Watch, column) = columns.covering(column)[0].into();
        }
        for (id, bar) in (0..).zip(&columns.bars) {
            for column in bar.left + 1..bar.right {
                *state.cell(Of::Crossing, column) += 1;
            }
            *state.cell(Of::Unplaced, bar.left) ^= key(columns, id);
        }
        state
    }

    fn cell(&mut self, kind: Of, column: u32) -> &mut u64 {
        &mut self.cells[kind as usize * self.columns + column as usize]
    }

    fn set_cell(&mut self, cell: usize, value: u64) {
        let old = std::mem::replace(&mut self.cells[cell], value);
        self.trail.push((cell, old));
    }

    /// Returns a number of a column.
    pub fn get(&self, kind: Of, column: u32) -> u64 {
        self.cells[kind as usize * self.columns + column as usize]
    }

    /// Sets a number of a column.
    pub fn set(&mut self, kind: Of, column: u32, value: u64) {
        self.set_cell(kind as usize * self.columns + column as usize, value);
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

    /// Returns the least offset that is possible for a bar, or [`DONE`] if it is placed.
    pub fn least_offset(&self, bar: u32) -> u64 {
        self.cells[KINDS * self.columns + bar as usize]
    }

    /// Sets the least offset of a bar.
    pub fn set_least_offset(&mut self, bar: u32, offset: u64) {
        self.set_cell(KINDS * self.columns + bar as usize, offset);
    }

    /// Marks a bar as placed.
    pub fn mark_placed(&mut self, columns: &Columns, id: u32) {
        let bar = columns.bars[id as usize];
        self.set_least_offset(id, DONE);
        self.set(Of::Unplaced, bar.left, self.get(Of::Unplaced, bar.left) ^ key(columns, id));
        for column in bar.left + 1..bar.right {
            self.set(Of::Crossing, column, self.get(Of::Crossing, column) - 1);
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
