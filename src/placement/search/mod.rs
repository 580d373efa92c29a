//! Exact search: is there a placement within a given capacity?

mod board;
mod columns;
mod corners;
mod failures;
mod state;
#[cfg(test)]
mod tests;
mod tree;

use columns::Columns;
use tree::{End, Tree};

use super::{Bytes, Placement, Problem, lower_bound};

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
    if lower_bound(problem) > capacity {
        return Outcome::Infeasible;
    }
    let columns = Columns::of(problem);
    let mut tree = Tree::new(&columns, columns.units(capacity));
    let mut run = 20_000;
    loop {
        let rest = effort.0.saturating_sub(tree.board.work);
        match tree.run(run.min(rest)) {
            End::Found => {
                if std::env::var("STAT").is_ok() { eprintln!("nodes {} work {}", tree.nodes, tree.board.work); }
                return Outcome::Found(columns.placement(problem, &tree.board.offsets));
            }
            End::Infeasible => return Outcome::Infeasible,
            End::OutOfEffort if tree.board.work >= effort.0 => return Outcome::OutOfEffort,
            End::OutOfEffort => run = run * 3 / 2,
        }
    }
}
