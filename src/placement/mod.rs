//! Offsets for blocks of memory whose sizes and live ranges are known: dynamic storage allocation, offline.
//!
//! Knows bytes and time, and nothing of graphs. Uses no other layer.
//!
//! ```text
//!  offset
//!    ^   +-----------+
//!    |   |     c     |         each rectangle is one block: as wide as its live range,
//!    |   +---+---+---+---+     as high as its size; none may overlap another.
//!    |   | a |   |   b   |     The peak is the top of the highest rectangle.
//!    +---+---+---+-------+--> step
//! ```

mod best_fit;
mod bound;
mod choose;
mod conflicts;
#[cfg(feature = "cli")]
pub mod csv;
mod from_peak;
mod large;
mod largest_first;
mod moments;
mod problem;
mod search;
#[cfg(test)]
mod tests;
mod timeline;
mod validate;
mod valley_sweep;

pub use best_fit::BestFit;
pub use bound::{loads, lower_bound};
pub use choose::{Choice, choose, choose_along, choose_with};
pub use from_peak::FromPeak;
pub use largest_first::LargestFirst;
pub use problem::{
    Block, BlockId, Bytes, ChunkId, Location, MAX_CHUNKS, Offset, Placement, Problem, Shrink, Step, TooLarge, padded,
};
pub use search::{Effort, Outcome, solve};
pub use timeline::Timeline;
pub use validate::{Defect, validate, validate_large};
pub use valley_sweep::{Rank, ValleySweep};

/// One way of choosing offsets.
///
/// A strategy always answers with a valid placement; it differs from the others in how high the peak is.
/// The same problem gives the same placement, always.
pub trait Strategy {
    /// A short name for reports.
    fn name(&self) -> &'static str;

    /// Is `problem` small enough for the memory and time that the strategy takes?
    fn suits(&self, problem: &Problem) -> bool {
        let _ = problem;
        true
    }

    /// Gives every block of `problem` a location.
    fn place(&self, problem: &Problem) -> Placement;
}
