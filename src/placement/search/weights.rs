//! Where the conflicts are.

use super::columns::Columns;

/// Before it counts more, each conflict counts this much.
const UNIT: u64 = 1000;

/// So many conflicts later, earlier ones count less.
const PERIOD: u32 = 100;

/// By column, how often and how lately there was a conflict.
#[derive(Debug)]
pub struct Weights {
    weights: Vec<u64>,
    /// Where the last conflict was.
    last: u32,
    /// Conflicts since the weights were lowered.
    conflicts: u32,
}

impl Weights {
    pub fn new(columns: &Columns) -> Self {
        Self { weights: vec![UNIT; columns.count() as usize], last: 0, conflicts: 0 }
    }

    pub fn of(&self, column: u32) -> u64 {
        self.weights[column as usize]
    }

    /// The weight of a column, more when it is near the last conflict: eleven times as much at most.
    pub fn near_last(&self, column: u32) -> u64 {
        self.of(column) * (4 + 40 / (1 + u64::from(column.abs_diff(self.last))))
    }

    /// There was a conflict in this column.
    pub fn blame(&mut self, column: u32) {
        self.weights[column as usize] += UNIT;
        self.last = column;
        self.conflicts += 1;
        if self.conflicts == PERIOD {
            self.conflicts = 0;
            self.weights.iter_mut().for_each(|weight| *weight = *weight / 8 * 7 + UNIT);
        }
    }
}
