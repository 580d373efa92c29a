//! The skyline over the columns, and what follows from a step: bars that can no longer lie low, columns that stay empty.

use super::columns::Columns;
use super::state::{DONE, State};

/// More empty units in a column than there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Where.
    pub column: u32,
}

/// A partial placement and its consequences.
pub struct Board<'c> {
    pub columns: &'c Columns,
    pub state: State,
    /// By bar, for those that are placed: where.
    pub offsets: Vec<u64>,
    /// How much has been looked at.
    pub work: u64,
    /// Columns whose skyline rose, and whose bars have not been told.
    risen: Vec<u32>,
    /// Columns in which the lowest bar may have risen.
    unsettled: Vec<u32>,
    is_unsettled: Vec<bool>,
}

impl<'c> Board<'c> {
    pub fn new(columns: &'c Columns, capacity: u64) -> Self {
        Self {
            columns,
            state: State::new(columns, capacity),
            offsets: vec![0; columns.bars.len()],
            work: 0,
            risen: Vec::new(),
            unsettled: Vec::new(),
            is_unsettled: vec![false; columns.count() as usize],
        }
    }

    /// Puts a bar onto the floor, which is level below it.
    pub fn put(&mut self, id: u32) -> Result<(), Conflict> {
        let bar = self.columns.bars[id as usize];
        let floor = self.state.reach(id);
        self.offsets[id as usize] = floor;
        self.state.take(self.columns, id);
        for column in bar.left..bar.right {
            debug_assert_eq!(self.state.sky(column), floor);
            self.state.set_sky(column, floor + bar.height);
            self.risen.push(column);
            self.unsettle(column);
        }
        self.settle()
    }

    /// Puts a bar below the ceiling, which is level above it.
    pub fn hang(&mut self, id: u32) -> Result<(), Conflict> {
        let bar = self.columns.bars[id as usize];
        let ceiling = self.state.ceiling(bar.left) - bar.height;
        self.offsets[id as usize] = ceiling;
        self.state.take(self.columns, id);
        for column in bar.left..bar.right {
            self.state.set_ceiling(column, ceiling);
            self.unsettle(column);
        }
        self.settle()
    }

    /// Leaves everything below `heights` empty, which are for the columns from `start` on.
    pub fn raise_all(&mut self, start: u32, heights: &[u64]) -> Result<(), Conflict> {
        for (column, &height) in (start..).zip(heights) {
            self.raise(column, height)?;
        }
        self.settle()
    }

    fn unsettle(&mut self, column: u32) {
        if !std::mem::replace(&mut self.is_unsettled[column as usize], true) {
            self.unsettled.push(column);
        }
    }

    fn raise(&mut self, column: u32, height: u64) -> Result<(), Conflict> {
        let sky = self.state.sky(column);
        if height == DONE {
            self.state.set_sky(column, DONE);
        } else if height > sky {
            let slack = self.state.slack(column);
            if slack < height - sky {
                self.forget();
                return Err(Conflict { column });
            }
            self.state.set_slack(column, slack - (height - sky));
            self.state.set_sky(column, height);
            self.risen.push(column);
        }
        Ok(())
    }

    /// Draws every conclusion.
    fn settle(&mut self) -> Result<(), Conflict> {
        loop {
            if let Some(column) = self.risen.pop() {
                self.lift_bars(column);
            } else if let Some(column) = self.unsettled.pop() {
                self.is_unsettled[column as usize] = false;
                let lowest = self.lowest_reach(column);
                self.raise(column, lowest)?;
            } else {
                return Ok(());
            }
        }
    }

    /// No bar lies below the skyline of a column that it covers.
    fn lift_bars(&mut self, column: u32) {
        let sky = self.state.sky(column);
        let alive = self.columns.alive(column);
        self.work += alive.len() as u64;
        for &id in alive {
            if self.state.reach(id) < sky {
                self.state.set_reach(id, sky);
                let bar = self.columns.bars[id as usize];
                self.work += u64::from(bar.right - bar.left);
                (bar.left..bar.right).for_each(|column| self.unsettle(column));
            }
        }
    }

    /// Below the lowest of its bars a column stays empty.
    fn lowest_reach(&mut self, column: u32) -> u64 {
        let sky = self.state.sky(column);
        let mut lowest = DONE;
        for &id in self.columns.alive(column) {
            self.work += 1;
            lowest = lowest.min(self.state.reach(id));
            if lowest <= sky {
                break;
            }
        }
        lowest
    }

    /// A conflict ends all conclusions.
    fn forget(&mut self) {
        self.risen.clear();
        for column in self.unsettled.drain(..) {
            self.is_unsettled[column as usize] = false;
        }
    }
}
