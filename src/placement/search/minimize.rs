//! The least capacity: down from a placement at hand, up from the lower bound.

use super::columns::Columns;
use super::run::{Answer, Draws, search};
use super::{Bytes, Effort, Placement, Problem, lower_bound};

/// What a search for the least capacity found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Least {
    /// The smallest placement found that is smaller than the one at hand, in one chunk.
    pub placement: Option<Placement>,
    /// Nothing is smaller than this placement, or than the one at hand when there is none.
    pub proven: bool,
}

/// GraphKey for a placement in one chunk of less than `known` bytes, the size of a placement at hand.
///
/// First at the lower bound, with half of the effort; then halfway between what is known to be possible and what was
/// not found; last, with what is left of the effort, one step below the best. With much effort there are rounds of that,
/// each with more of it: what a short search finds spares the longer ones capacities that are too easy.
pub fn minimize(problem: &Problem, known: Bytes, effort: Effort) -> Least {
    let bound = lower_bound(problem);
    let mut least = Least { placement: None, proven: known <= bound };
    let Some(columns) = Columns::of(problem, effort).filter(|_| !least.proven) else { return least };
    let mut descent = Descent {
        impossible: columns.load().max(columns.units_up(bound)).saturating_sub(1),
        best: columns.units_up(known),
        offsets: None,
        left: effort.0,
        draws: Draws::NONE,
        columns: &columns,
    };
    if effort.0 < MUCH {
        descent.go();
    } else {
        descent.go_in_rounds();
    }
    // Blocks that shrink were taken as if they did not: then only the bound is a proof.
    let exact = problem.shrinks().is_empty();
    least.placement = descent.offsets.as_ref().map(|offsets| columns.placement(problem, offsets));
    let size = least.placement.as_ref().map_or(known, Placement::size);
    least.proven = size <= bound || exact && descent.impossible + 1 >= descent.best;
    least
}

/// From this effort on there are rounds. A core does that in seconds.
const MUCH: u64 = 4_000_000_000;

/// The effort for a capacity in the first round; each round has three times that of the one before.
const FIRST_ROUND: u64 = 20_000_000;

/// Capacities, in units.
struct Descent<'c> {
    columns: &'c Columns,
    /// Too little, which is proven.
    impossible: u64,
    /// What the best placement so far takes.
    best: u64,
    offsets: Option<Vec<u64>>,
    /// Work that may still be done.
    left: u64,
    draws: Draws,
}

impl Descent<'_> {
    fn go(&mut self) {
        if self.is_open() {
            self.attempt(self.impossible + 1, self.left / 2);
        }
        self.halve(|left| left / 4);
        while self.is_open() {
            self.attempt(self.best - 1, self.left);
        }
    }

    /// First at the lower bound in the styles that prove the most; then mostly in those that find the most.
    fn go_in_rounds(&mut self) {
        if self.is_open() {
            self.attempt(self.impossible + 1, self.left / 8);
        }
        self.draws = Draws::MOST;
        let mut effort = FIRST_ROUND;
        while self.is_open() {
            self.attempt(self.impossible + 1, effort.min(self.left));
            self.halve(|left| effort.min(left));
            effort = effort.saturating_mul(3);
        }
    }

    /// Goes halfway from what was not found to what was found until they meet, each time with a part of the effort.
    fn halve(&mut self, part: impl Fn(u64) -> u64) {
        let mut missed = self.impossible + 1;
        while missed + 1 < self.best && self.left > 0 {
            let middle = missed.midpoint(self.best);
            if !self.attempt(middle, part(self.left)) {
                missed = middle;
            }
        }
    }

    /// Is there something left to find out, and effort for it?
    fn is_open(&self) -> bool {
        self.impossible + 1 < self.best && self.left > 0
    }

    /// Searches at a capacity; whether something was found.
    fn attempt(&mut self, capacity: u64, effort: u64) -> bool {
        let (answer, work) = search(self.columns, capacity, effort, &mut self.draws);
        self.left = self.left.saturating_sub(work);
        match answer {
            Answer::Found(offsets) => {
                self.best = self.columns.peak(&offsets);
                self.offsets = Some(offsets);
                true
            }
            Answer::Infeasible => {
                self.impossible = self.impossible.max(capacity);
                false
            }
            Answer::OutOfEffort => false,
        }
    }
}
