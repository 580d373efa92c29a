//! Exact search: finds a placement within a given capacity or proves that there is none, and finds the least capacity.
//!
//! Backtracking with constraint propagation over partial placements, one corner of the skyline at a time:
//! - [`outcome`]: effort and result,
//! - [`columns`]: the problem in columns instead of steps and units instead of bytes,
//! - [`state`]: skyline and domains, with a trail for backtracking,
//! - [`partial_placement`]: applies a move and propagates its consequences,
//! - [`corners`]: where to branch, and which moves there are,
//! - [`heuristics`], [`weights`], [`randomized`]: the branching order,
//! - [`no_goods`]: states that are known to have no solution,
//! - [`tree`]: depth-first search,
//! - [`restarts`]: restarts the search, each time longer and in another branching order,
//! - [`minimize`](mod@minimize): the least capacity.

mod outcome;

mod columns;
mod state;

mod partial_placement;

mod corners;

mod no_goods;
mod randomized;
mod weights;
mod heuristics;

mod tree;

mod restarts;

mod minimize;

#[cfg(test)]
mod tests;

use super::{Bytes, Problem, lower_bound};
use columns::Columns;
pub use minimize::{Minimum, minimize};
pub use outcome::{Effort, Outcome};
use restarts::{RandomRuns, search};

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
