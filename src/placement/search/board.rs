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
    /// Columns whose skyline rose to a height, and whose bars have not been told: start, end and height.
    risen: Vec<(u32, u32, u64)>,
    /// Columns in which the lowest bar was placed or has risen.
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
            self.unsettle(column);
        }
        self.risen.push((bar.left, bar.right, floor + bar.height));
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
            if self.state.watch(column) == u64::from(id) {
                self.unsettle(column);
            }
        }
        self.settle()
    }

    /// Leaves everything below `heights` empty, which are for the columns from `start` on.
    pub fn raise_all(&mut self, start: u32, heights: &[u64]) -> Result<(), Conflict> {
        for (column, &height) in (start..).zip(heights) {
            self.raise(column, height)?;
            self.unsettle(column);
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
            self.risen.push((column, column + 1, height));
        }
        Ok(())
    }

    /// Draws every conclusion.
    fn settle(&mut self) -> Result<(), Conflict> {
        loop {
            if let Some((start, end, sky)) = self.risen.pop() {
                self.lift_bars(start, end, sky);
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
    fn lift_bars(&mut self, start: u32, end: u32, sky: u64) {
        let columns = self.columns;
        let later = columns.starting_within(start + 1, end);
        let alive = columns.alive(start);
        self.work += alive.len() as u64 + u64::from(later.end - later.start);
        for id in alive.iter().copied().chain(later) {
            if self.state.reach(id) < sky {
                self.state.set_reach(id, sky);
                let bar = columns.bars[id as usize];
                self.work += u64::from(bar.right - bar.left);
                for column in bar.left..bar.right {
                    if self.state.watch(column) == u64::from(id) {
                        self.unsettle(column);
                    }
                }
            }
        }
    }

    /// Below the lowest of its bars a column stays empty.
    fn lowest_reach(&mut self, column: u32) -> u64 {
        let sky = self.state.sky(column);
        let mut lowest = DONE;
        let mut watch = 0;
        for &id in self.columns.alive(column) {
            self.work += 1;
            let reach = self.state.reach(id);
            if reach < lowest {
                lowest = reach;
                watch = id;
                if lowest <= sky {
                    break;
                }
            }
        }
        self.state.set_watch(column, u64::from(watch));
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
