//! Runs of the search: each one longer than the one before, and with what that one has learnt.

use super::columns::Columns;
use super::draw::Draw;
use super::preference::Preference;
use super::tree::{End, Tree};
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

/// From runs of this length on, there are runs in styles drawn by lot.
const LONG_RUN: u64 = 1_000_000;

/// How often a drawn run may look at each bar in each column. To place all of them takes about half of that.
const DRAWN_LOOKS: u64 = 64;

/// Runs in styles drawn by lot.
#[derive(Debug)]
pub struct Draws {
    /// How many times the work of the other runs goes into them.
    pub share: u64,
    /// How many styles were drawn, so that later searches draw others.
    pub count: u64,
}

impl Draws {
    /// None.
    pub const NONE: Self = Self { share: 0, count: 0 };
    /// As much work as in other runs.
    pub const EQUAL: Self = Self { share: 1, count: 0 };
    /// Most of the work.
    pub const MOST: Self = Self { share: 4, count: 0 };
}

/// GraphKey for a placement of at most `capacity` units. Also says how much work that took.
pub fn search(columns: &Columns, capacity: u64, effort: u64, draws: &mut Draws) -> (Answer, u64) {
    if columns.load() > capacity {
        return (Answer::Infeasible, 0);
    }
    let capacity = capacity.min(columns.total());
    let mut runs = Runs { tree: Tree::new(columns, capacity), columns, capacity, effort, draws };
    let end = runs.go();
    let answer = match end {
        End::Found => Answer::Found(runs.tree.offsets().to_vec()),
        End::Infeasible => Answer::Infeasible,
        End::OutOfEffort => Answer::OutOfEffort,
    };
    (answer, runs.tree.work())
}

/// The runs at a capacity.
struct Runs<'c> {
    tree: Tree<'c>,
    columns: &'c Columns,
    capacity: u64,
    /// Of all runs.
    effort: u64,
    draws: &'c mut Draws,
}

impl Runs<'_> {
    fn go(&mut self) -> End {
        let mut work = FIRST_RUN;
        loop {
            let start = self.tree.work();
            for style in STYLES {
                let end = self.tree.run(style, work.min(self.left()));
                if end != End::OutOfEffort || self.left() == 0 {
                    return end;
                }
            }
            if work >= LONG_RUN {
                let turn = self.tree.work() - start;
                let end = self.draw(self.draws.share * turn);
                if end != End::OutOfEffort || self.left() == 0 {
                    return end;
                }
            }
            work += work / 2;
        }
    }

    fn left(&self) -> u64 {
        self.effort.saturating_sub(self.tree.work())
    }

    /// Runs in drawn styles until so much work is done.
    fn draw(&mut self, work: u64) -> End {
        let pairs = u64::from(self.columns.count()) * self.columns.bars.len() as u64;
        let longest = (DRAWN_LOOKS * pairs).max(FIRST_RUN);
        let until = self.tree.work() + work;
        while self.tree.work() < until && self.left() > 0 {
            self.draws.count += 1;
            let draw = Draw::new(self.columns, self.capacity, self.draws.count);
            let end = self.tree.run_drawn(draw, longest.min(self.left()));
            if end != End::OutOfEffort {
                return end;
            }
        }
        End::OutOfEffort
    }
}
