//! Offsets for blocks of memory whose sizes and live ranges are known in advance: offline dynamic storage allocation.
//!
//! ```text
//!  offset
//!    ^   +-----------+
//!    |   |     c     |         Each rectangle is a block: as wide as its live range, as high as its size.
//!    |   +---+---+---+---+     Blocks that are live at the same step must not overlap. The size of a
//!    |   | a |   |   b   |     placement is the top of the highest rectangle.
//!    +---+---+---+-------+--> step
//! ```
//!
//! A [`Problem`] lists the blocks of one buffer, a [`Placement`] has an offset for each. No placement is smaller than
//! the peak of the memory profile, the live bytes by step: this is the [`lower_bound`]. Finding the smallest placement
//! is NP-hard, so [`choose()`] tries several strategies, keeps the smallest result, and stops as soon as one is at the
//! lower bound. If none is, an exact search with limited effort tries to improve the result or to prove it optimal.
//! [`validate`] checks any placement and shares no code with the strategies.
//!
//! Everything here is deterministic: effort is counted in units of work, never in time. This layer knows bytes and
//! steps, but no graphs, and uses no other layer.

// The problem, its solution, and the check of a solution.
mod problem;
mod validate;

// Facts about live ranges that strategies use.
mod compressed;
mod interference;
mod timeline;

// Strategies.
mod best_fit;
mod from_peak;
mod largest_first;
mod valley_sweep;

// Exact search, and the choice among all of the above.
mod search;

mod choose;

#[cfg(test)]
mod tests;

pub use best_fit::{BestFit, place_as_ggml};
pub use choose::{Choice, choose, placements_within};
pub use from_peak::{FromPeak, Workspace};
pub use largest_first::LargestFirst;
pub use problem::{
    Block, BlockId, BlockList, Bytes, ChunkId, Effort, Location, MAX_CHUNKS, Offset, Placement, Problem, Shrink, Step,
    Strategy, TooLarge, padded,
};
pub(crate) use problem::{filled, refill};
pub use search::{Outcome, solve};
pub use timeline::{MemoryProfile, Timeline, lower_bound, peaks, sum_of_ranges};
pub use validate::{Defect, validate, validate_large};
pub use valley_sweep::ValleySweep;
