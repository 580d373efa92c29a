//! The common interface of all strategies.

use super::{Placement, Problem};

/// A way of choosing offsets.
///
/// Every placement is valid. [`LargestFirst`](super::LargestFirst) and [`BestFit`](super::BestFit) respect
/// [`Problem::max_chunk`], with several chunks where one is not enough; the others put all blocks into one chunk of any
/// size. Equal problems get equal placements.
pub trait Strategy {
    /// A short name for reports.
    fn name(&self) -> &'static str;

    /// Returns `true` if `problem` is small enough for the memory and time that the strategy takes.
    fn suits(&self, problem: &Problem) -> bool {
        let _ = problem;
        true
    }

    /// Chooses a location for every block of `problem`.
    fn place(&self, problem: &Problem) -> Placement;
}
