//! Runs of the search: each one longer than the one before, and with what that one has learnt.

use super::columns::Columns;
use super::tree::{End, Preference, Tree};

/// What is known about a capacity.
pub enum Answer {
    /// By bar, where it lies, in units.
    Found(Vec<u64>),
    Infeasible,
    OutOfEffort,
}

/// Which bars are tried first, by run in turn: where one order is unlucky the other seldom is.
const PREFERENCES: [Preference; 2] = [Preference::Height, Preference::Area];

/// The work of the first run.
const FIRST_RUN: u64 = 20_000;

/// Looks for a placement of at most `capacity` units. Also says how much work that took.
pub fn search(columns: &Columns, capacity: u64, effort: u64) -> (Answer, u64) {
    if columns.load() > capacity {
        return (Answer::Infeasible, 0);
    }
    let mut tree = Tree::new(columns, capacity);
    let mut work = tune(2);
    let mut prefs = Vec::new();
    let mut t = tune(0);
    while t > 0 {
        prefs.push(match t % 10 {
            3 => Preference::Height,
            7 => Preference::Width,
            4 => Preference::AreaWidth,
            _ => Preference::Area,
        });
        t /= 10;
    }
    loop {
        for &preference in &prefs {
            let left = effort.saturating_sub(tree.work());
            match tree.run(preference, work.min(left)) {
                End::Found => return (Answer::Found(tree.offsets().to_vec()), tree.work()),
                End::Infeasible => return (Answer::Infeasible, tree.work()),
                End::OutOfEffort if tree.work() >= effort => return (Answer::OutOfEffort, tree.work()),
                End::OutOfEffort => {}
            }
        }
        work += work * tune(3) / 100;
    }
}

pub fn tune(i: usize) -> u64 {
    static T: std::sync::OnceLock<Vec<u64>> = std::sync::OnceLock::new();
    let t =
        T.get_or_init(|| std::env::var("TUNE").unwrap_or_default().split(',').filter_map(|x| x.parse().ok()).collect());
    t.get(i).copied().unwrap_or(0)
}
