//! Restarts of the search. Each run is longer than the one before, and keeps its no-goods and conflict weights.

use super::Outcome;
use super::columns::Columns;
use super::heuristics::Heuristic;
use super::randomized::RandomHeuristic;
use super::tree::{RunEnd, Tree};

/// The work of the first run. After a run of every heuristic, runs become longer by half.
const FIRST_RUN: u64 = 50_000;

/// Once runs are this long, there are also runs with random heuristics.
const LONG_RUN: u64 = 1_000_000;

/// The work of a random run, by pair of bar and column. Placing all bars takes about half of that.
const RANDOM_RUN: u64 = 64;

/// Runs with random heuristics.
#[derive(Debug)]
pub struct RandomRuns {
    /// Their work, as a multiple of that of all other runs.
    pub share: u64,
    /// The number of runs so far. Each is seeded with its number.
    pub count: u64,
}

impl RandomRuns {
    /// No random runs.
    pub const NONE: Self = Self { share: 0, count: 0 };
    /// Random runs get as much work as all other runs.
    pub const EQUAL: Self = Self { share: 1, count: 0 };
    /// Most of the work.
    pub const MOST: Self = Self { share: 4, count: 0 };
}

/// Searches for the offsets of all bars within `capacity` units. Also returns the work done.
pub fn search(columns: &Columns, capacity: u64, effort: u64, random: &mut RandomRuns) -> (Outcome<Vec<u64>>, u64) {
    if columns.lower_bound() > capacity {
        return (Outcome::Infeasible, 0);
    }
    let capacity = capacity.min(columns.total());
    let mut runs = Runs { tree: Tree::new(columns, capacity), columns, capacity, effort, random };
    let end = runs.run();
    let outcome = match end {
        RunEnd::Found => Outcome::Found(runs.tree.offsets().to_vec()),
        RunEnd::Infeasible => Outcome::Infeasible,
        RunEnd::OutOfEffort => Outcome::OutOfEffort,
    };
    (outcome, runs.tree.work())
}

/// All runs at a capacity.
struct Runs<'c> {
    tree: Tree<'c>,
    columns: &'c Columns,
    capacity: u64,
    /// The work of all runs together.
    effort: u64,
    random: &'c mut RandomRuns,
}

impl Runs<'_> {
    fn run(&mut self) -> RunEnd {
        let mut work = FIRST_RUN;
        loop {
            let start = self.tree.work();
            for heuristic in Heuristic::ALL {
                let end = self.tree.run(heuristic, work.min(self.left()));
                if end != RunEnd::OutOfEffort || self.left() == 0 {
                    return end;
                }
            }
            if work >= LONG_RUN {
                let turn = self.tree.work() - start;
                let end = self.run_randomly(self.random.share * turn);
                if end != RunEnd::OutOfEffort || self.left() == 0 {
                    return end;
                }
            }
            work += work / 2;
        }
    }

    fn left(&self) -> u64 {
        self.effort.saturating_sub(self.tree.work())
    }

    /// Runs with random heuristics until `work` is done.
    fn run_randomly(&mut self, work: u64) -> RunEnd {
        let pairs = u64::from(self.columns.count()) * self.columns.bars.len() as u64;
        let longest = (RANDOM_RUN * pairs).max(FIRST_RUN);
        let until = self.tree.work() + work;
        while self.tree.work() < until && self.left() > 0 {
            self.random.count += 1;
            let heuristic = RandomHeuristic::new(self.columns, self.capacity, self.random.count);
            let end = self.tree.run_randomly(heuristic, longest.min(self.left()));
            if end != RunEnd::OutOfEffort {
                return end;
            }
        }
        RunEnd::OutOfEffort
    }
}
