//! Exact search: is there a placement within a given capacity, and what is the least capacity?
//!
//! [`columns`] is a problem as the search sees it; [`state`] is where the search stands, with a way back; [`board`]
//! draws the conclusions of a step; [`corners`] says what may be done next, and [`preference`] what is tried first;
//! [`failures`] remembers what leads nowhere; [`tree`] goes depth first; [`run`] starts it over and over, at length in
//! styles of its own choice and briefly in those that [`draw`] draws; [`minimize`](mod@minimize) looks for the least
//! capacity.

mod board;
mod columns;
mod corners;
mod draw;
mod failures;
mod minimize;
mod preference;
mod run;
mod state;
#[cfg(test)]
mod tests;
mod tree;
mod weights;

use super::{Bytes, Placement, Problem, lower_bound};
use columns::Columns;
pub use minimize::{Least, minimize};
use run::{Answer, Draws, search};

/// How much work a search may do: the blocks and steps that it looks at, never time, so that the same problem always
/// gives the same answer. A core does some hundreds of millions a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Effort(u64);

impl Effort {
    /// No search at all.
    pub const NONE: Self = Self(0);
    /// What planning a graph may take: a fraction of a millisecond.
    pub const QUICK: Self = Self(100_000);
    /// Minutes at most.
    pub const THOROUGH: Self = Self(60_000_000_000);

    /// This many units of work.
    pub const fn units(units: u64) -> Self {
        Self(units)
    }

    /// The number of units.
    pub const fn in_units(self) -> u64 {
        self.0
    }
}

impl Default for Effort {
    fn default() -> Self {
        Self::QUICK
    }
}

/// What a search found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A placement in one chunk, within the capacity.
    Found(Placement),
    /// There is none, and that is proven.
    Infeasible,
    /// The effort was not enough to find out.
    OutOfEffort,
}

/// GraphKey for a placement in one chunk of at most `capacity` bytes. A limit on chunks is not looked at.
///
/// Blocks that shrink are placed as if they did not; then only the lower bound proves that there is no placement.
pub fn solve(problem: &Problem, capacity: Bytes, effort: Effort) -> Outcome {
    if lower_bound(problem) > capacity {
        return Outcome::Infeasible;
    }
    let Some(columns) = Columns::of(problem, effort) else { return Outcome::OutOfEffort };
    let mut draws = Draws::EQUAL;
    match search(&columns, columns.units(capacity), effort.0, &mut draws).0 {
        Answer::Found(offsets) => Outcome::Found(columns.placement(problem, &offsets)),
        Answer::Infeasible if problem.shrinks().is_empty() => Outcome::Infeasible,
        Answer::Infeasible | Answer::OutOfEffort => Outcome::OutOfEffort,
    }
}
