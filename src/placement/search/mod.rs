//! Exact search: is there a placement within a given capacity?

use super::{Bytes, Placement, Problem, lower_bound, portfolio};

/// How much work a search may do: the blocks and steps it looks at, never time, so that the same problem always gives
/// the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Effort(u64);

impl Effort {
    /// No search at all.
    pub const NONE: Self = Self(0);
    /// What planning a graph may take: below a millisecond.
    pub const QUICK: Self = Self(100_000);
    /// Minutes at most.
    pub const THOROUGH: Self = Self(100_000_000_000);

    /// An effort of this many units of work; a core does some hundreds of millions a second.
    pub const fn units(units: u64) -> Self {
        Self(units)
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

/// Looks for a placement in one chunk of at most `capacity` bytes. A limit on chunks is not looked at.
pub fn solve(problem: &Problem, capacity: Bytes, effort: Effort) -> Outcome {
    let _ = effort;
    if lower_bound(problem) > capacity {
        return Outcome::Infeasible;
    }
    let placements = portfolio().filter(|strategy| strategy.suits(problem)).map(|strategy| strategy.place(problem));
    placements
        .filter(|placement| placement.chunks.len() <= 1)
        .find(|placement| placement.size() <= capacity)
        .map_or(Outcome::OutOfEffort, Outcome::Found)
}
