//! Outcomes of a search.

use std::fmt;

/// The outcome of a search for a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The placement is proven to be the smallest.
    Optimal,
    /// The smallest placement that was found; a smaller one may exist.
    NotProven,
    /// The placement fits the capacity.
    Fits,
    /// It is proven that no placement fits the capacity.
    Infeasible,
    /// The effort was spent before a placement was found.
    NotFound,
}

impl Verdict {
    /// Returns the outcome of a search for the smallest placement.
    pub fn of_smallest(is_optimal: bool) -> Self {
        if is_optimal { Self::Optimal } else { Self::NotProven }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Optimal => "optimal: proven",
            Self::NotProven => "smallest found, not proven",
            Self::Fits => "fits",
            Self::Infeasible => "infeasible: proven",
            Self::NotFound => "not found within the effort, not proven",
        })
    }
}
