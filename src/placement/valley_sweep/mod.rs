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
mod rank;
mod best_sweep;
mod skyline;
mod unplaced;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;

use super::compressed::CompressedRanges;
use super::{Bytes, Location, Placement, Problem, Strategy, Timeline};
use local_peaks::local_peaks;
use rank::order_by;
use skyline::Skyline;
use unplaced::UnplacedBlocks;

pub(super) use best_sweep::best_sweep;
pub use rank::Rank;

/// Places the best-ranked block that fits into a valley.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValleySweep {
    /// What makes a block rank first.
    pub rank: Rank,
    /// True if blocks with a higher peak of the memory profile within their live range come before all others.
    pub by_local_peak: bool,
}

impl ValleySweep {
    /// All orders; those that most often give the smallest placement of large problems come first, which are others
    /// than for small problems.
    pub const ALL: [Self; 14] = [
        Self::by(Rank::Area),
        Self::by_local_peak_and(Rank::Length),
        Self::by_local_peak_and(Rank::LengthThenSize),
        Self::by(Rank::Start),
        Self::by_local_peak_and(Rank::Start),
        Self::by(Rank::LengthThenSize),
        Self::by_local_peak_and(Rank::Area),
        Self::by_local_peak_and(Rank::End),
        Self::by(Rank::Length),
        Self::by(Rank::SizeThenLength),
        Self::by(Rank::Size),
        Self::by_local_peak_and(Rank::SizeThenLength),
        Self::by_local_peak_and(Rank::Size),
        Self::by(Rank::End),
    ];

    /// Orders blocks by `rank` alone.
    pub const fn by(rank: Rank) -> Self {
        Self { rank, by_local_peak: false }
    }

    /// Orders blocks by local peak, and by `rank` those of equal ones.
    pub const fn by_local_peak_and(rank: Rank) -> Self {
        Self { rank, by_local_peak: true }
    }
}

impl Strategy for ValleySweep {
    fn name(&self) -> &'static str {
        self.rank.name(self.by_local_peak)
    }

    fn place(&self, problem: &Problem) -> Placement {
        self.place_below(problem, Bytes::MAX).expect("no limit")
    }

    fn place_below(&self, problem: &Problem, limit: Bytes) -> Option<Placement> {
        let sweeper = Sweeper::new(problem);
        sweeper.place_below(limit, &sweeper.ranks(*self))
    }
}

/// What all sweeps over one problem share.
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
        // Blocks are ordered by start already.
        if order.rank != Rank::Start {
            order_by(blocks.iter().map(|block| order.rank.weight(block)), &mut ranks);
        }
        if order.by_local_peak {
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
