//! Fills the valleys of a skyline over time, from the bottom up.
//!
//! After Burke's best fit for strip packing and Sekiyama's use of it for memory. Does not compute which live ranges
//! overlap, so memory stays linear in the number of blocks.
//!
//! ```text
//!        +---+                    A valley is a stretch of the skyline below both of its neighbours. The best-ranked
//!    +---+ a +-------+            block whose whole live range lies inside it is placed on its floor: here one with a
//!    |   +---+   b   |   +---+    live range from x to y. If there is none, the floor rises to the lower neighbour.
//!    |       +-------+   | c |
//!    +-------+-------+---+---+
//!                    x   y
//! ```
//!
//! The order in which valleys are filled makes no difference: a block that fits into one fits into no other.

mod local_peaks;
mod skyline;
mod unplaced;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;

use super::compressed::CompressedRanges;
use super::{Block, Bytes, Location, Placement, Problem, Strategy, Timeline};
use local_peaks::local_peaks;
use skyline::Skyline;
use unplaced::UnplacedBlocks;

/// Places the best-ranked block that fits into a valley. Ranks differ in which block is first.
///
/// The load of a block is the peak of the memory profile within its live range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValleySweep {
    /// The highest load, then the longest live range.
    LoadAndLength,
    /// The highest load, then the largest length times the square root of the size.
    LoadLengthAndSize,
    /// The largest length times the square root of the size.
    LengthAndSize,
    /// The highest load, then the largest size times length.
    LoadAndArea,
    /// The highest load, then the latest end.
    LoadAndEnd,
    /// The largest size times the square root of the length.
    SizeAndLength,
    /// The highest load, then the largest size times the square root of the length.
    LoadSizeAndLength,
    /// The latest end.
    End,
}

impl ValleySweep {
    /// All ranks, in the order in which they are tried: the largest problems get the first few only.
    pub const ALL: [Self; 8] = [
        Self::LoadAndLength,
        Self::LoadLengthAndSize,
        Self::LengthAndSize,
        Self::LoadAndArea,
        Self::LoadAndEnd,
        Self::SizeAndLength,
        Self::LoadSizeAndLength,
        Self::End,
    ];

    /// Returns `true` if the load comes before the weight.
    fn is_by_load(self) -> bool {
        !matches!(self, Self::LengthAndSize | Self::SizeAndLength | Self::End)
    }

    /// Returns the weight of a block. Larger weights rank first.
    #[allow(clippy::cast_precision_loss, reason = "weights that differ in the last digits are equal enough")]
    fn weight(self, block: &Block) -> f32 {
        let (size, length) = (block.size as f32, (block.end_step - block.first_step) as f32);
        match self {
            Self::LoadAndLength => length,
            Self::LengthAndSize | Self::LoadLengthAndSize => length * size.sqrt(),
            Self::LoadAndArea => size * length,
            Self::SizeAndLength | Self::LoadSizeAndLength => size * length.sqrt(),
            Self::End | Self::LoadAndEnd => block.end_step as f32,
        }
    }
}

impl Strategy for ValleySweep {
    fn name(&self) -> &'static str {
        match self {
            Self::LoadAndLength => "valley sweep by load and length",
            Self::LoadLengthAndSize => "valley sweep by load, length and size",
            Self::LengthAndSize => "valley sweep by length and size",
            Self::LoadAndArea => "valley sweep by load and area",
            Self::LoadAndEnd => "valley sweep by load and end",
            Self::SizeAndLength => "valley sweep by size and length",
            Self::LoadSizeAndLength => "valley sweep by load, size and length",
            Self::End => "valley sweep by end",
        }
    }

    fn place(&self, problem: &Problem) -> Placement {
        let sweeper = Sweeper::new(problem);
        sweeper.place_below(Bytes::MAX, &sweeper.ranks(*self)).expect("no limit")
    }
}

/// Data that all sweeps over one problem share.
struct Sweeper<'p> {
    problem: &'p Problem,
    ranges: CompressedRanges,
    /// By block; computed by the first order that uses them.
    local_peaks: OnceCell<Vec<f32>>,
}

impl<'p> Sweeper<'p> {
    fn new(problem: &'p Problem) -> Self {
        Self { problem, ranges: CompressedRanges::of(problem), local_peaks: OnceCell::new() }
    }

    /// Returns the rank of each block: the first has 0, and of equal blocks the earlier comes first.
    fn ranks(&self, order: ValleySweep) -> Vec<u32> {
        let blocks = self.problem.blocks();
        let mut ranks: Vec<u32> = (0..).take(blocks.len()).collect();
        order_by(blocks.iter().map(|block| order.weight(block)), &mut ranks);
        if order.is_by_load() {
            let local_peaks = self.local_peaks.get_or_init(|| local_peaks(&Timeline::of(self.problem), &self.ranges));
            order_by(local_peaks.iter().copied(), &mut ranks);
        }
        ranks
    }

    /// Returns a placement in one chunk of less than `limit` bytes, or `None` as soon as a block exceeds it.
    fn place_below(&self, limit: Bytes, ranks: &[u32]) -> Option<Placement> {
        let blocks = self.problem.blocks();
        let mut locations = vec![Location::default(); blocks.len()];
        let mut unplaced = UnplacedBlocks::new(&self.ranges.ends, ranks);
        let mut skyline = Skyline::new(self.ranges.last_end());
        let mut peak = 0;
        while !unplaced.is_empty() {
            let valley = skyline.valley();
            let Some(id) = unplaced.take_best(valley.start, valley.end) else {
                skyline.raise();
                continue;
            };
            let top = valley.height + blocks[id].size;
            if top >= limit {
                return None;
            }
            peak = peak.max(top);
            locations[id].offset = valley.height;
            skyline.put(self.ranges.starts[id], self.ranges.ends[id], top);
        }
        let chunks = if blocks.is_empty() { vec![] } else { vec![peak] };
        Some(Placement { locations, chunks })
    }
}

/// Returns the smallest placement of at most `most_sweeps` sweeps, if it is below `limit` bytes, and its order. Stops
/// at the lower bound. First tries all orders, then repeats the best one, each time with the blocks first that were
/// placed too high before.
pub fn best_sweep(
    problem: &Problem,
    lower_bound: Bytes,
    limit: Bytes,
    most_sweeps: usize,
) -> Option<(Placement, ValleySweep)> {
    let sweeper = Sweeper::new(problem);
    let mut best: Option<(Placement, ValleySweep)> = None;
    for order in ValleySweep::ALL.into_iter().take(most_sweeps) {
        let limit = best.as_ref().map_or(limit, |(placement, _)| placement.size());
        if limit <= lower_bound {
            break;
        }
        if let Some(placement) = sweeper.place_below(limit, &sweeper.ranks(order)) {
            best = Some((placement, order));
        }
    }
    let (placement, order) = best?;
    let rounds = most_sweeps.saturating_sub(ValleySweep::ALL.len());
    Some((repeated(&sweeper, lower_bound, placement, order, rounds), order))
}

/// Returns the smallest of `placement` and the placements of `rounds` more sweeps in the same order.
fn repeated(
    sweeper: &Sweeper<'_>,
    lower_bound: Bytes,
    placement: Placement,
    order: ValleySweep,
    rounds: usize,
) -> Placement {
    let order = sweeper.ranks(order);
    let mut too_high = vec![0.0; order.len()];
    let mut best = placement.clone();
    let mut last = placement;
    for _ in 0..rounds {
        if best.size() <= lower_bound {
            break;
        }
        count_too_high(sweeper.problem, &last, lower_bound.midpoint(best.size()), &mut too_high);
        let mut ranks = order.clone();
        order_by(too_high.iter().copied(), &mut ranks);
        let Some(placement) = sweeper.place_below(Bytes::MAX, &ranks) else { break };
        if placement.size() < best.size() {
            best = placement.clone();
        }
        last = placement;
    }
    best
}

/// Adds 1 for each block that ends above `height`.
fn count_too_high(problem: &Problem, placement: &Placement, height: Bytes, too_high: &mut [f32]) {
    for ((block, location), count) in problem.blocks().iter().zip(&placement.locations).zip(too_high) {
        if location.offset + block.size > height {
            *count += 1.0;
        }
    }
}

/// Changes `ranks` so that larger weights come first, and equal weights keep their order. Both are given by block.
///
/// Weights are not negative, so their bits sort as the numbers do.
fn order_by(weights: impl Iterator<Item = f32>, ranks: &mut [u32]) {
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
