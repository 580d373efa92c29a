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
    /// Conflicts since the weights were lowered.
    conflicts: u32,
    last: u32,
}

impl Weights {
    pub fn new(columns: &Columns) -> Self {
        Self { weights: vec![UNIT; columns.count() as usize], conflicts: 0, last: 0 }
    }

    pub fn of(&self, column: u32) -> u64 {
        match super::run::tune(1) {
            0 => self.weights[column as usize],
            11 => self.weights[column as usize] * (4 + 40 / (1 + u64::from(column.abs_diff(self.last)))),
            12 => self.weights[column as usize] * (2 + 40 / (4 + u64::from(column.abs_diff(self.last)))),
            _ => self.weights[column as usize] * (2 + 40 / (8 + u64::from(column.abs_diff(self.last)))),
        }
    }

    /// There was a conflict in this column.
    pub fn blame(&mut self, column: u32) {
        self.weights[column as usize] += UNIT;
        self.last = column;
        self.conflicts += 1;
        if u64::from(self.conflicts) == super::run::tune(5) {
            self.conflicts = 0;
            self.weights.iter_mut().for_each(|weight| *weight = *weight / 8 * 7 + UNIT);
        }
    }
}
