//! Which block comes first where several fit.

use crate::placement::Block;

/// What makes a block rank first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// The earliest first step.
    Start,
    /// The largest size times length of the live range.
    Area,
    /// The largest size.
    Size,
    /// The longest live range.
    Length,
    /// The largest length times the square root of the size.
    LengthThenSize,
    /// The largest size times the square root of the length.
    SizeThenLength,
    /// The latest end.
    End,
}

impl Rank {
    /// Returns the name of the sweep in this order.
    pub(super) fn name(self, by_local_peak: bool) -> &'static str {
        match (self, by_local_peak) {
            (Self::Start, false) => "valley sweep by start",
            (Self::Area, false) => "valley sweep by area",
            (Self::Size, false) => "valley sweep by size",
            (Self::Length, false) => "valley sweep by length",
            (Self::LengthThenSize, false) => "valley sweep by length and size",
            (Self::SizeThenLength, false) => "valley sweep by size and length",
            (Self::End, false) => "valley sweep by end",
            (Self::Start, true) => "valley sweep by load and start",
            (Self::Area, true) => "valley sweep by load and area",
            (Self::Size, true) => "valley sweep by load and size",
            (Self::Length, true) => "valley sweep by load and length",
            (Self::LengthThenSize, true) => "valley sweep by load, length and size",
            (Self::SizeThenLength, true) => "valley sweep by load, size and length",
            (Self::End, true) => "valley sweep by load and end",
        }
    }

    /// Returns the weight of a block. Larger weights rank first.
    #[allow(clippy::cast_precision_loss, reason = "weights that differ in the last digits are equal enough")]
    pub(super) fn weight(self, block: &Block) -> f32 {
        let (size, length) = (block.size as f32, (block.end_step - block.first_step) as f32);
        match self {
            Self::Start => (u32::MAX - block.first_step) as f32,
            Self::Area => size * length,
            Self::Size => size,
            Self::Length => length,
            Self::LengthThenSize => length * size.sqrt(),
            Self::SizeThenLength => size * length.sqrt(),
            Self::End => block.end_step as f32,
        }
    }
}

/// Changes `ranks` so that larger weights come first, and equal weights keep their order. Both are given by block.
///
/// Weights are not negative, so their bits sort as the numbers do.
pub fn order_by(weights: impl Iterator<Item = f32>, ranks: &mut [u32]) {
    let keys = ranks.iter().zip(weights).map(|(&rank, weight)| u64::from(!weight.to_bits()) << 32 | u64::from(rank));
    let mut keys: Vec<u64> = keys.collect();
    keys.sort_unstable();
    let mut blocks = vec![0; ranks.len()];
    for (id, &rank) in (0u32..).zip(&*ranks) {
        blocks[rank as usize] = id;
    }
    for (rank, key) in (0..).zip(keys) {
        ranks[blocks[low_half(key) as usize] as usize] = rank;
    }
}

#[allow(clippy::cast_possible_truncation, reason = "returns the low half on purpose")]
fn low_half(key: u64) -> u32 {
    key as u32
}
