//! Finds the least capacity, between the lower bound and the size of a known placement.

use super::Outcome;
use super::columns::Columns;
use super::restarts::{RandomRuns, search};
use crate::placement::{Bytes, Effort, Placement, Problem, lower_bound};

/// The result of a search for the least capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minimum {
    /// The smallest placement found in one chunk, if it is smaller than the known one.
    pub placement: Option<Placement>,
    /// True if it is proven that no placement is smaller than this one, or than the known one if this is `None`.
    pub proven: bool,
}

/// Searches for the smallest placement in one chunk of less than `known` bytes, the size of a known placement.
///
/// Searches at the lower bound first, with half of the effort. Then bisects between that and the best placement. Last,
/// with the rest of the effort, searches one unit below the best. With much effort this is repeated in rounds of
/// growing effort: the results of a short search save the longer ones capacities that are too easy.
pub fn minimize(problem: &Problem, known: Bytes, effort: Effort) -> Minimum {
    let bound = lower_bound(problem);
    let mut minimum = Minimum { placement: None, proven: known <= bound };
    let Some(columns) = Columns::of(problem, effort).filter(|_| !minimum.proven) else { return minimum };
    let mut interval = Interval {
        infeasible: columns.lower_bound().max(columns.units_up(bound)).saturating_sub(1),
        best: columns.units_up(known),
        offsets: None,
        left: effort.in_units(),
        random_runs: RandomRuns::NONE,
        columns: &columns,
    };
    if effort.in_units() < MUCH {
        interval.narrow();
    } else {
        interval.narrow_in_rounds();
    }
    // Blocks that shrink were placed at their full sizes: then only the lower bound is a proof.
    let exact = problem.shrinks().is_empty();
    minimum.placement = interval.offsets.as_ref().map(|offsets| columns.placement(problem, offsets));
    let size = minimum.placement.as_ref().map_or(known, Placement::size);
    minimum.proven = size <= bound || exact && interval.infeasible + 1 >= interval.best;
    minimum
}

/// From this effort on, which takes seconds, there are rounds.
const MUCH: u64 = 4_000_000_000;

/// The effort for each capacity in the first round. Each round has three times the effort of the one before.
const FIRST_ROUND: u64 = 20_000_000;

/// The capacities that may be the least, in units.
struct Interval<'c> {
    columns: &'c Columns,
    /// The largest capacity that is proven to be infeasible.
    infeasible: u64,
    /// The size of the best placement so far.
    best: u64,
    /// The offsets of the best placement, unless it is the known one.
    offsets: Option<Vec<u64>>,
    /// Work that may still be done.
    left: u64,
    random_runs: RandomRuns,
}

impl Interval<'_> {
    fn narrow(&mut self) {
        if self.is_open() {
            self.attempt(self.infeasible + 1, self.left / 2);
        }
        self.bisect(|left| left / 4);
        while self.is_open() {
            self.attempt(self.best - 1, self.left);
        }
    }

    /// Searches at the lower bound with fixed heuristics first, which prove the most; then usually with random ones,
    /// which find the most.
    fn narrow_in_rounds(&mut self) {
        if self.is_open() {
            self.attempt(self.infeasible + 1, self.left / 8);
        }
        self.random_runs = RandomRuns::MOST;
        let mut effort = FIRST_ROUND;
        while self.is_open() {
            self.attempt(self.infeasible + 1, effort.min(self.left));
            self.bisect(|left| effort.min(left));
            effort = effort.saturating_mul(3);
        }
    }

    /// Bisects between the lowest capacity and the best placement, each search with a `part` of the effort that is
    /// left.
    fn bisect(&mut self, part: impl Fn(u64) -> u64) {
        let mut missed = self.infeasible + 1;
        while missed + 1 < self.best && self.left > 0 {
            let middle = missed.midpoint(self.best);
            if !self.attempt(middle, part(self.left)) {
                missed = middle;
            }
        }
    }

    /// Returns `true` if the least capacity is not known and there is effort left.
    fn is_open(&self) -> bool {
        self.infeasible + 1 < self.best && self.left > 0
    }

    /// Searches at a capacity. Returns `true` if a placement was found.
    fn attempt(&mut self, capacity: u64, effort: u64) -> bool {
        let (outcome, work) = search(self.columns, capacity, effort, &mut self.random_runs);
        self.left = self.left.saturating_sub(work);
        match outcome {
            Outcome::Found(offsets) => {
                self.best = self.columns.height(&offsets);
                self.offsets = Some(offsets);
                true
            }
            Outcome::Infeasible => {
                self.infeasible = self.infeasible.max(capacity);
                false
            }
            Outcome::OutOfEffort => false,
        }
    }
}
