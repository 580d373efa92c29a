//! Applies moves to a partial placement and propagates their consequences: least offsets of bars rise with the skyline,
//! and the skyline rises over space that no bar can use.

use super::columns::Columns;
use super::state::{DONE, Of, SearchState};

/// A column has less slack than must stay empty: the partial placement cannot be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The column.
    pub column: u32,
}

/// A partial placement and its consequences.
pub struct PartialPlacement<'c> {
    pub columns: &'c Columns,
    pub state: SearchState,
    /// By bar: its offset in units, once it is placed.
    pub offsets: Vec<u64>,
    /// The work of all moves so far.
    pub work: u64,
    /// Columns whose skyline has risen to a height, not propagated to their bars yet: start, end and height.
    risen: Vec<(u32, u32, u64)>,
    /// Columns whose watched bar was placed or has risen.
    queue: Vec<u32>,
    is_queued: Vec<bool>,
}

impl<'c> PartialPlacement<'c> {
    pub fn new(columns: &'c Columns, capacity: u64) -> Self {
        Self {
            columns,
            state: SearchState::new(columns, capacity),
            offsets: vec![0; columns.bars.len()],
            work: 0,
            risen: Vec::new(),
            queue: Vec::new(),
            is_queued: vec![false; columns.count() as usize],
        }
    }

    /// Places a bar on the skyline, which has one height below it.
    pub fn place(&mut self, id: u32) -> Result<(), Conflict> {
        let bar = self.columns.bars[id as usize];
        let floor = self.state.least_offset(id);
        self.offsets[id as usize] = floor;
        self.state.mark_placed(self.columns, id);
        for column in bar.left..bar.right {
            debug_assert_eq!(self.state.get(Of::Skyline, column), floor);
            self.state.set(Of::Skyline, column, floor + bar.height);
            self.enqueue(column);
        }
        self.risen.push((bar.left, bar.right, floor + bar.height));
        self.propagate()
    }

    /// Places a bar below the ceiling, which has one height above it.
    pub fn place_at_ceiling(&mut self, id: u32) -> Result<(), Conflict> {
        let bar = self.columns.bars[id as usize];
        let ceiling = self.state.get(Of::Ceiling, bar.left) - bar.height;
        self.offsets[id as usize] = ceiling;
        self.state.mark_placed(self.columns, id);
        for column in bar.left..bar.right {
            self.state.set(Of::Ceiling, column, ceiling);
            if self.state.get(Of::Watch, column) == u64::from(id) {
                self.enqueue(column);
            }
        }
        self.propagate()
    }

    /// Leaves the columns from `start` on empty up to `heights`.
    pub fn leave_empty(&mut self, start: u32, heights: &[u64]) -> Result<(), Conflict> {
        for (column, &height) in (start..).zip(heights) {
            self.raise(column, height)?;
            self.enqueue(column);
        }
        self.propagate()
    }

    fn enqueue(&mut self, column: u32) {
        if !std::mem::replace(&mut self.is_queued[column as usize], true) {
            self.queue.push(column);
        }
    }

    fn raise(&mut self, column: u32, height: u64) -> Result<(), Conflict> {
        let skyline = self.state.get(Of::Skyline, column);
        if height == DONE {
            self.state.set(Of::Skyline, column, DONE);
        } else if height > skyline {
            let slack = self.state.get(Of::Slack, column);
            if slack < height - skyline {
                self.clear_queues();
                return Err(Conflict { column });
            }
            self.state.set(Of::Slack, column, slack - (height - skyline));
            self.state.set(Of::Skyline, column, height);
            self.risen.push((column, column + 1, height));
        }
        Ok(())
    }

    /// Propagates all changes, until nothing follows any more.
    fn propagate(&mut self) -> Result<(), Conflict> {
        loop {
            if let Some((start, end, height)) = self.risen.pop() {
                self.lift_bars(start, end, height);
            } else if let Some(column) = self.queue.pop() {
                self.is_queued[column as usize] = false;
                let lowest = self.lowest_bar(column);
                self.raise(column, lowest)?;
            } else {
                return Ok(());
            }
        }
    }

    /// Raises the least offsets of the bars in `start..end`, where the skyline has risen to `height`.
    fn lift_bars(&mut self, start: u32, end: u32, height: u64) {
        let columns = self.columns;
        let later = columns.starting_within(start + 1, end);
        let covering = columns.covering(start);
        self.work += covering.len() as u64 + u64::from(later.end - later.start);
        for id in covering.iter().copied().chain(later) {
            if self.state.least_offset(id) < height {
                self.state.set_least_offset(id, height);
                let bar = columns.bars[id as usize];
                self.work += u64::from(bar.right - bar.left);
                for column in bar.left..bar.right {
                    if self.state.get(Of::Watch, column) == u64::from(id) {
                        self.enqueue(column);
                    }
                }
            }
        }
    }

    /// Returns the least offset of the unplaced bars of a column, up to which it stays empty, and watches that bar.
    fn lowest_bar(&mut self, column: u32) -> u64 {
        let skyline = self.state.get(Of::Skyline, column);
        let mut lowest = DONE;
        let mut watch = 0;
        for &id in self.columns.covering(column) {
            self.work += 1;
            let offset = self.state.least_offset(id);
            if offset < lowest {
                lowest = offset;
                watch = id;
                if lowest <= skyline {
                    break;
                }
            }
        }
        self.state.set(Of::Watch, column, u64::from(watch));
        lowest
    }

    /// Ends propagation after a conflict.
    fn clear_queues(&mut self) {
        self.risen.clear();
        for column in self.queue.drain(..) {
            self.is_queued[column as usize] = false;
        }
    }
}
