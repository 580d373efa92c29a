//! A style drawn by lot, for problems that have room to spare almost everywhere and are hard all the same.
//!
//! Short runs in many such styles reach what no long run does: whether a run is lucky is decided by its first choices,
//! and where there is room nothing ever takes them back.

use std::ops::RangeInclusive;

use super::columns::{Bar, Columns};
use super::state::next_random;

/// How a run goes about it: the widest bars first, of equal ones any, and first at the corners with little room.
#[derive(Debug)]
pub struct Draw {
    /// By bar, which of equally wide ones come first.
    lots: Vec<u64>,
    /// How often the room at a corner is multiplied.
    power: u64,
    /// Units beside which it matters little how much room there is.
    spare: f64,
    /// How many bars leaving a strip empty counts for.
    leaving: f64,
}

const POWERS: RangeInclusive<u64> = 2..=5;
/// As parts of the capacity: a hundredth to a fourteenth.
const SPARES: RangeInclusive<u64> = 14..=100;
const LEAVING: RangeInclusive<u64> = 6..=40;

/// At the last conflict a corner costs less: as if divided by this and one more, far from it by one.
const NEAR: f64 = 2.0;

impl Draw {
    /// The same `seed` draws the same style.
    pub fn new(columns: &Columns, capacity: u64, mut seed: u64) -> Self {
        let lots = columns.bars.iter().map(|_| next_random(&mut seed) >> 32).collect();
        let mut number = |range: RangeInclusive<u64>| {
            let (least, most) = range.into_inner();
            least + next_random(&mut seed) % (most - least + 1)
        };
        let power = number(POWERS);
        let spare = float(capacity) / float(number(SPARES));
        Self { lots, power, spare: spare.max(1.0), leaving: float(number(LEAVING)) }
    }

    /// The larger the earlier.
    pub fn preference(&self, id: u32, bar: Bar) -> u128 {
        u128::from(bar.right - bar.left) << 64 | u128::from(self.lots[id as usize])
    }

    /// What going on at a corner costs. Sums, products and quotients only, which are the same on all machines.
    pub fn cost(&self, bars: u64, leave: bool, slack: u64, distance_of_last_conflict: u32) -> f64 {
        let moves = float(bars) + if leave { self.leaving } else { 0.0 };
        let room = (0..self.power).fold(1.0, |room, _| room * (float(slack) / self.spare + 1.0));
        moves * room / (1.0 + NEAR / (1.0 + f64::from(distance_of_last_conflict)))
    }
}

#[allow(clippy::cast_precision_loss, reason = "numbers that differ in the last digits are equal enough")]
fn float(number: u64) -> f64 {
    number as f64
}
