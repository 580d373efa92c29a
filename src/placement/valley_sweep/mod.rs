//! Fills the valleys of a skyline over time, from the ground up.
//!
//! After Burke's best fit for strip packing and Sekiyama's use of it for memory. No conflicts are computed:
//! memory stays linear in the number of blocks.
//!
//! ```text
//!        +---+                    A valley is a stretch of the skyline below both of its neighbours. The best-ranked
//!    +---+ a +-------+            block whose whole live range lies inside it goes onto its floor: here one that lives
//!    |   +---+   b   |   +---+    from x to y. When there is none, the floor rises to the lower wall.
//!    |       +-------+   | c |
//!    +-------+-------+---+---+
//!                    x   y
//! ```
//!
//! In which order the valleys are filled makes no difference: what fits into one fits into no other.

mod peaks;
mod rank;
mod rounds;
mod skyline;
#[cfg(test)]
mod tests;
mod waiting;

use super::moments::Moments;
use super::{Bytes, Location, Placement, Problem, Strategy};
use rank::order_by;
use skyline::Skyline;
use waiting::Waiting;

pub use rank::Rank;
pub(super) use rounds::best_sweep;

/// Which block comes first where several fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValleySweep {
    /// The rank of a block.
    pub rank: Rank,
    /// Do blocks that live through a larger load come before all others?
    pub peaks_first: bool,
}

impl ValleySweep {
    /// Every order; those that most often give the smallest placement of large problems come first.
    pub const ALL: [Self; 14] = [
        Self::by(Rank::Area),
        Self::peaks_first_by(Rank::Length),
        Self::peaks_first_by(Rank::LengthThenSize),
        Self::by(Rank::Start),
        Self::peaks_first_by(Rank::Start),
        Self::by(Rank::LengthThenSize),
        Self::peaks_first_by(Rank::Area),
        Self::peaks_first_by(Rank::End),
        Self::by(Rank::Length),
        Self::by(Rank::SizeThenLength),
        Self::by(Rank::Size),
        Self::peaks_first_by(Rank::SizeThenLength),
        Self::peaks_first_by(Rank::Size),
        Self::by(Rank::End),
    ];

    /// By rank alone.
    pub const fn by(rank: Rank) -> Self {
        Self { rank, peaks_first: false }
    }

    /// By rank among those that live through the same load.
    pub const fn peaks_first_by(rank: Rank) -> Self {
        Self { rank, peaks_first: true }
    }
}

impl Strategy for ValleySweep {
    fn name(&self) -> &'static str {
        self.rank.name(self.peaks_first)
    }

    /// One chunk only: with a limit on chunks the answer may be larger than allowed, and the caller has to look.
    fn place(&self, problem: &Problem) -> Placement {
        let sweeper = Sweeper::new(problem);
        let placement = sweeper.place_below(Bytes::MAX, &sweeper.ranks(*self));
        placement.expect("the sizes of a problem add up to less than the largest number")
    }
}

/// What all sweeps over one problem share.
struct Sweeper<'p> {
    problem: &'p Problem,
    moments: Moments,
}

impl<'p> Sweeper<'p> {
    fn new(problem: &'p Problem) -> Self {
        Self { problem, moments: Moments::of(problem) }
    }

    /// By block its place in the order; the first has 0. Of equal blocks the earlier comes first.
    fn ranks(&self, order: ValleySweep) -> Vec<u32> {
        let blocks = self.problem.blocks();
        let mut ranks: Vec<u32> = (0..).take(blocks.len()).collect();
        // By start they are in order already.
        if order.rank != Rank::Start {
            order_by(blocks.iter().map(|block| order.rank.weight(block)), &mut ranks);
        }
        if order.peaks_first {
            order_by(peaks::largest_loads(self.problem, &self.moments), &mut ranks);
        }
        ranks
    }

    /// A placement in one chunk of less than `limit` bytes; `None` as soon as that turns out not to be in this order.
    fn place_below(&self, limit: Bytes, ranks: &[u32]) -> Option<Placement> {
        let blocks = self.problem.blocks();
        let mut locations = vec![Location::default(); blocks.len()];
        let mut waiting = Waiting::new(&self.moments.deaths, ranks);
        let mut skyline = Skyline::new(self.moments.end());
        let mut peak = 0;
        while !waiting.is_empty() {
            let valley = skyline.valley();
            let Some(id) = waiting.take_best(valley.start, valley.end) else {
                skyline.raise();
                continue;
            };
            let top = valley.height + blocks[id].size;
            if top >= limit {
                return None;
            }
            peak = peak.max(top);
            locations[id].offset = valley.height;
            skyline.put(self.moments.births[id], self.moments.deaths[id], top);
        }
        let chunks = if blocks.is_empty() { vec![] } else { vec![peak] };
        Some(Placement { locations, chunks })
    }
}
