//! Where the conflicts are, and where to look first for that.

use super::columns::Columns;

/// What makes a column heavy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// Many conflicts, most of all lately.
    Conflicts,
    /// The same, and that it is near the last conflict.
    LastConflict,
    /// The same, and that there is little room to spare: for problems that have much of it elsewhere.
    Load,
}

impl Focus {
    /// In the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Conflicts, Self::LastConflict, Self::Load];
}

/// Each conflict counts this much.
const UNIT: u64 = 1000;

/// A column that is full weighs so many times as much as one that is empty, for those who look at that.
const FULL: u64 = 16;

/// By column, how often and how lately there was a conflict.
#[derive(Debug)]
pub struct Weights {
    focus: Focus,
    weights: Vec<u64>,
    /// Weights before any conflict.
    first: Vec<u64>,
    /// Where the last conflict was.
    last: u32,
    /// Conflicts since the weights were lowered.
    conflicts: u32,
}

impl Weights {
    /// The load of no column is above `capacity`.
    pub fn new(focus: Focus, columns: &Columns, capacity: u64) -> Self {
        let first: Vec<u64> = match focus {
            Focus::Conflicts | Focus::LastConflict => vec![UNIT; columns.count() as usize],
            Focus::Load => (0..columns.count()).map(|column| by_load(columns.load_of(column), capacity)).collect(),
        };
        Self { focus, weights: first.clone(), first, last: 0, conflicts: 0 }
    }

    /// The weight of a column.
    fn of(&self, column: u32) -> u64 {
        let weight = self.weights[column as usize];
        match self.focus {
            Focus::Conflicts => weight,
            Focus::LastConflict | Focus::Load => {
                weight * (4 + 40 / (1 + u64::from(self.distance_of_last_conflict(column))))
            }
        }
    }

    /// What going on at an edge costs. Leaving a strip empty counts for more than a bar, since less follows from it.
    #[allow(clippy::cast_precision_loss, reason = "costs and weights are small numbers")]
    pub fn cost(&self, bars: u64, leave: bool, edge: u32) -> f64 {
        let moves = 2 * bars + self.cost_of_leaving() * u64::from(leave);
        moves as f64 / self.of(edge) as f64
    }

    /// What leaving a strip empty costs, where a bar costs 2.
    fn cost_of_leaving(&self) -> u64 {
        match self.focus {
            Focus::Conflicts | Focus::LastConflict => 3,
            Focus::Load => 16,
        }
    }

    /// After so many conflicts all that were before count less.
    fn period(&self) -> u32 {
        match self.focus {
            Focus::Conflicts | Focus::LastConflict => 100,
            Focus::Load => 1000,
        }
    }

    /// How far a column is from the last conflict.
    pub fn distance_of_last_conflict(&self, column: u32) -> u32 {
        column.abs_diff(self.last)
    }

    /// There was a conflict in this column.
    pub fn blame(&mut self, column: u32) {
        self.weights[column as usize] += UNIT;
        self.last = column;
        self.conflicts += 1;
        if self.conflicts == self.period() {
            self.conflicts = 0;
            for (weight, first) in self.weights.iter_mut().zip(&self.first) {
                *weight = *weight / 8 * 7 + first;
            }
        }
    }
}

fn by_load(load: u64, capacity: u64) -> u64 {
    let weight = u128::from(UNIT) * u128::from(capacity) / u128::from(capacity - load + (capacity / FULL).max(1));
    u64::try_from(weight).unwrap_or(UNIT)
}
