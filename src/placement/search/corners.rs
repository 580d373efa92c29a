//! Where to go on, and what can be done there.
//!
//! ```text
//!        +-----+                 Any placement can be pushed down until every block rests on something. Then, at the
//!   +----+     |      +----      left edge of a valley of the skyline, either a block that starts exactly there rests
//!   |    |     |<---->|          on the floor, or the strip at the edge stays empty up to the lowest thing that a block
//!   |    |     +------+          could rest on instead. So it is at the right edge. Any valley may be looked at first.
//! ```

use super::board::Board;
use super::state::DONE;

/// A range of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First column.
    pub start: u32,
    /// First column after it.
    pub end: u32,
}

/// Which edge of a valley.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// An edge of a valley: a level floor, lower than what is beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corner {
    pub valley: Range,
    pub side: Side,
}

/// One thing to do at a corner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// This bar rests on the floor.
    Put(u32),
    /// No bar that ends at the edge does.
    Leave(Corner),
}

/// Above everything: where a bar that has no place would lie.
const NOWHERE: u64 = DONE - 1;

impl Corner {
    /// The column at the edge.
    pub fn edge(self) -> u32 {
        match self.side {
            Side::Left => self.valley.start,
            Side::Right => self.valley.end - 1,
        }
    }

    /// The bars that may rest on the floor at the edge, of twins the first only.
    pub fn bars<'b>(self, board: &'b Board<'_>) -> impl Iterator<Item = u32> + 'b {
        let columns = board.columns;
        let floor = board.state.sky(self.edge());
        let (left, right): (_, &[u32]) = match self.side {
            Side::Left => (columns.starting(self.valley.start), &[]),
            Side::Right => (0..0, columns.ending(self.valley.end)),
        };
        let is_first = move |id: u32| {
            id == 0 || columns.bars[id as usize - 1] != columns.bars[id as usize] || board.state.reach(id - 1) == DONE
        };
        left.chain(right.iter().copied()).filter(move |&id| board.state.reach(id) == floor && is_first(id))
    }

    /// Is there room for leaving the strip at the edge empty? Adds to `work`.
    pub fn may_be_left(self, board: &Board<'_>, work: &mut u64) -> bool {
        if board.state.slack(self.edge()) == 0 {
            return false;
        }
        let (start, heights) = self.strip(board);
        *work += u64::from(self.valley.end - self.valley.start);
        (start..).zip(heights).all(|(column, height)| {
            *work += board.columns.alive(column).len() as u64;
            height == DONE || height - board.state.sky(column) <= board.state.slack(column)
        })
    }

    /// How high each column of the strip at the edge stays empty when nothing rests on the floor there: the first
    /// column of the strip, and the heights.
    pub fn strip(self, board: &Board<'_>) -> (u32, Vec<u64>) {
        let floor = board.state.sky(self.edge());
        let support = self.supports(board, floor);
        let length = (0..).zip(&support).find(|&(_, &height)| height < NOWHERE).map(|(distance, _)| distance);
        let length = length.unwrap_or(self.valley.end - self.valley.start);
        let strip = match self.side {
            Side::Left => self.valley.start..self.valley.start + length,
            Side::Right => self.valley.end - length..self.valley.end,
        };
        let lowest = |column: u32| {
            let reach = |&id: &u32| match board.state.reach(id) {
                reach if reach == floor => {
                    let bar = board.columns.bars[id as usize];
                    floor.saturating_add(support[(bar.right - bar.left - 1) as usize]).min(NOWHERE)
                }
                reach => reach,
            };
            board.columns.alive(column).iter().map(reach).min().unwrap_or(DONE)
        };
        (strip.start, strip.map(lowest).collect())
    }

    /// By distance from the edge, the least height among the bars that may rest on the floor, begin within that
    /// distance and not at the edge.
    fn supports(self, board: &Board<'_>, floor: u64) -> Vec<u64> {
        let columns = board.columns;
        let mut least = NOWHERE;
        let mut supports = Vec::with_capacity((self.valley.end - self.valley.start) as usize);
        for distance in 0..self.valley.end - self.valley.start {
            let (left, right): (_, &[u32]) = match self.side {
                Side::Left => (columns.starting(self.valley.start + distance), &[]),
                Side::Right => (0..0, columns.ending(self.valley.end - distance)),
            };
            if distance > 0 {
                for id in left.chain(right.iter().copied()).filter(|&id| board.state.reach(id) == floor) {
                    least = least.min(columns.bars[id as usize].height);
                }
            }
            supports.push(least);
        }
        supports
    }
}

/// Calls `visit` with every corner of the valleys in `part`, until it says that it has seen enough.
pub fn for_each_corner(board: &Board<'_>, part: Range, mut visit: impl FnMut(Corner) -> bool) {
    let mut start = part.start;
    let mut before = DONE;
    while start < part.end {
        let floor = board.state.sky(start);
        let end = (start..part.end).find(|&column| board.state.sky(column) != floor).unwrap_or(part.end);
        let after = if end < part.end { board.state.sky(end) } else { DONE };
        if before > floor && after > floor {
            let valley = Range { start, end };
            if visit(Corner { valley, side: Side::Left }) || visit(Corner { valley, side: Side::Right }) {
                return;
            }
        }
        (start, before) = (end, floor);
    }
}
