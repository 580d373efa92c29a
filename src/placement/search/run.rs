//! Runs of the search: each one longer than the one before, and with what that one has learnt.

use super::columns::Columns;
use super::tree::{End, Preference, Tree};
use super::weights::Focus;

/// What is known about a capacity.
pub enum Answer {
    /// By bar, where it lies, in units.
    Found(Vec<u64>),
    Infeasible,
    OutOfEffort,
}

/// How a run goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Which bars are tried first.
    pub preference: Preference,
    /// Which corners are looked at first.
    pub focus: Focus,
}

/// The styles of the runs, in turn: where one is unlucky another seldom is.
const STYLES: [Style; 6] = [
    Style { preference: Preference::Height, focus: Focus::LastConflict },
    Style { preference: Preference::Width, focus: Focus::LastConflict },
    Style { preference: Preference::Area, focus: Focus::LastConflict },
    Style { preference: Preference::Height, focus: Focus::Conflicts },
    Style { preference: Preference::Area, focus: Focus::Conflicts },
    Style { preference: Preference::WideArea, focus: Focus::Load },
];

/// The work of the first run; after each turn of the styles runs become longer by half.
const FIRST_RUN: u64 = 50_000;

/// Looks for a placement of at most `capacity` units. Also says how much work that took.
pub fn search(columns: &Columns, capacity: u64, effort: u64) -> (Answer, u64) {
    if columns.load() > capacity {
        return (Answer::Infeasible, 0);
    }
    let mut tree = Tree::new(columns, capacity.min(columns.total()));
    let mut work = FIRST_RUN;
    loop {
        for style in STYLES {
            let left = effort.saturating_sub(tree.work());
            match tree.run(style, work.min(left)) {
                End::Found => return (Answer::Found(tree.offsets().to_vec()), tree.work()),
                End::Infeasible => return (Answer::Infeasible, tree.work()),
                End::OutOfEffort if tree.work() >= effort => return (Answer::OutOfEffort, tree.work()),
                End::OutOfEffort => {}
            }
        }
        work += work / 2;
    }
}
