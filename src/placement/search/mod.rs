//! Exact search: finds a placement within a given capacity or proves that there is none, and finds the least capacity.
//!
//! Backtracking with constraint propagation over partial placements, one corner of the skyline at a time:
//! - [`columns`]: the problem in columns instead of steps and units instead of bytes,
//! - [`state`]: skyline and domains, with a trail for backtracking,
//! - [`partial_placement`]: applies a move and propagates its consequences,
//! - [`corners`]: where to branch, and which moves there are,
//! - [`heuristics`], [`randomized`]: the branching order,
//! - [`no_goods`]: states that are known to have no solution,
//! - [`tree`]: depth-first search,
//! - [`restarts`]: restarts the search, each time longer and in another branching order,
//! - [`minimize`](mod@minimize): the least capacity.

mod columns;
mod state;

mod partial_placement;

mod corners;

mod no_goods;
mod randomized;
mod heuristics;

mod tree;

mod restarts;

mod minimize;

#[cfg(test)]
mod tests;

use super::{Bytes, Effort, Placement, Problem, lower_bound};
use columns::Columns;
pub use minimize::{Minimum, minimize};
use restarts::{RandomRuns, search};

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

/// Searches for a placement in one chunk of at most `capacity` bytes. Ignores a limit on chunks.
///
/// Blocks that shrink are placed at their full sizes; then only the lower bound proves that there is no placement.
pub fn solve(problem: &Problem, capacity: Bytes, effort: Effort) -> Outcome {
    if lower_bound(problem) > capacity {
        return Outcome::Infeasible;
    }
    let Some(columns) = Columns::of(problem, effort) else { return Outcome::OutOfEffort };
    let mut random_runs = RandomRuns::EQUAL;
    match search(&columns, columns.units(capacity), effort.in_units(), &mut random_runs).0 {
        Outcome::Found(offsets) => Outcome::Found(columns.placement(problem, &offsets)),
        Outcome::Infeasible if problem.shrinks().is_empty() => Outcome::Infeasible,
        Outcome::Infeasible | Outcome::OutOfEffort => Outcome::OutOfEffort,
    }
}
