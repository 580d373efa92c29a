//! The effort of a search, and its result.

use crate::placement::Placement;

/// How much work a search may do, counted in blocks and steps that it reads. Never in time, so that the same problem
/// always has the same result. A core does some hundreds of millions of units a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Effort(u64);

impl Effort {
    /// No search at all.
    pub const NONE: Self = Self(0);
    /// For planning a graph: a fraction of a millisecond.
    pub const QUICK: Self = Self(100_000);
    /// Minutes at most.
    pub const THOROUGH: Self = Self(60_000_000_000);

    /// Creates an effort of `units` units of work.
    pub const fn units(units: u64) -> Self {
        Self(units)
    }

    /// Returns the number of units.
    pub const fn in_units(self) -> u64 {
        self.0
    }
}

impl Default for Effort {
    fn default() -> Self {
        Self::QUICK
    }
}

/// The result of a search within a capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T = Placement> {
    /// A placement in one chunk, within the capacity.
    Found(T),
    /// It is proven that there is no such placement.
    Infeasible,
    /// The effort was not enough to decide.
    OutOfEffort,
}
