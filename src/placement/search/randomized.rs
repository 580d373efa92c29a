//! Randomized branching orders, for problems that have slack in almost every column and are hard all the same.
//!
//! Many short runs in random orders find placements that no long run does: the first decisions of a run determine
//! whether it succeeds, and where there is slack backtracking never reaches them.

use std::ops::RangeInclusive;

use super::columns::{Bar, Columns};
use super::state::next_random;

/// A random branching order: corners with little slack first, and there the widest bars first, equally wide ones at
/// random.
#[derive(Debug)]
pub struct RandomHeuristic {
    /// By bar, its priority among equally wide ones.
    tie_breakers: Vec<u64>,
    /// The power of the slack in the cost of a corner.
    power: u64,
    /// The slack, in units, that doubles the base of that power.
    scale: f64,
    /// The cost of leaving a strip empty, where a bar costs 1.
    leaving: f64,
}

/// The range of the power.
const POWERS: RangeInclusive<u64> = 2..=5;
/// The range of the capacity divided by the scale.
const SCALE_DIVISORS: RangeInclusive<u64> = 14..=100;
/// The range of the cost of leaving a strip empty.
const LEAVING: RangeInclusive<u64> = 6..=40;

/// The cost of a corner is divided by one plus this at the last conflict, and by one far from it.
const NEAR: f64 = 2.0;

impl RandomHeuristic {
    /// Creates the heuristic of a `seed`.
    pub fn new(columns: &Columns, capacity: u64, mut seed: u64) -> Self {
        let tie_breakers = columns.bars.iter().map(|_| next_random(&mut seed) >> 32).collect();
        let mut number = |range: RangeInclusive<u64>| {
            let (least, most) = range.into_inner();
            least + next_random(&mut seed) % (most - least + 1)
        };
        let power = number(POWERS);
        let scale = float(capacity) / float(number(SCALE_DIVISORS));
        Self { tie_breakers, power, scale: scale.max(1.0), leaving: float(number(LEAVING)) }
    }

    /// Returns the priority of a bar. Larger ones are tried first.
    pub fn priority(&self, id: u32, bar: Bar) -> u128 {
        u128::from(bar.right - bar.left) << 64 | u128::from(self.tie_breakers[id as usize])
    }

    /// Returns the cost of branching at a corner. Uses only operations with the same result on all machines.
    pub fn cost(&self, bars: u64, leave: bool, slack: u64, distance_to_last_conflict: u32) -> f64 {
        let moves = float(bars) + if leave { self.leaving } else { 0.0 };
        let looseness = (0..self.power).fold(1.0, |power, _| power * (float(slack) / self.scale + 1.0));
        moves * looseness / (1.0 + NEAR / (1.0 + f64::from(distance_to_last_conflict)))
    }
}

#[allow(clippy::cast_precision_loss, reason = "numbers that differ in the last digits are equal enough")]
fn float(number: u64) -> f64 {
    number as f64
}
