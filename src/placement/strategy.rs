//! What all strategies have in common.

use super::{Bytes, Placement, Problem};

/// A way of choosing offsets.
///
/// Every placement is valid, except that it may exceed [`Problem::max_chunk`] unless the strategy
/// [splits into chunks](Strategy::splits_into_chunks). Equal problems get equal placements.
pub trait Strategy {
    /// A short name for reports.
    fn name(&self) -> &'static str;

    /// Returns `true` if `problem` is small enough for the memory and time that the strategy takes.
    fn suits(&self, problem: &Problem) -> bool {
        let _ = problem;
        true
    }

    /// Returns `true` if placements respect [`Problem::max_chunk`], with several chunks where one is not enough. The
    /// other strategies put all blocks into one chunk of any size.
    fn splits_into_chunks(&self) -> bool {
        false
    }

    /// Returns `true` if the strategy lists all pairs of overlapping live ranges, which is slow where many blocks are
    /// live at once.
    fn lists_overlaps(&self) -> bool {
        false
    }

    /// Chooses a location for every block of `problem`.
    fn place(&self, problem: &Problem) -> Placement;

    /// Chooses locations as [`place`](Strategy::place) does, or returns `None` if that takes `limit` bytes or more; some
    /// strategies know before they have placed all blocks.
    fn place_below(&self, problem: &Problem, limit: Bytes) -> Option<Placement> {
        Some(self.place(problem)).filter(|placement| placement.size() < limit)
    }
}
