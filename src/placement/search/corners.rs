//! Where to branch, and which moves there are.
//!
//! ```text
//!        +-----+                 Any placement can be pushed down until every block rests on another or on the ground.
//!   +----+     |      +----      Then, at the left edge of a valley of the skyline, either a block that starts exactly
//!   |    |     |<---->|          there rests on the floor, or the strip at the edge stays empty up to the lowest top
//!   |    |     +------+          that a block can rest on instead. The right edge is symmetric. The search may branch
//!                                at any valley.
//! ```

use super::partial_placement::PartialPlacement;
use super::state::{DONE, Of};

/// A range of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnRange {
    /// First column.
    pub start: u32,
    /// First column after the last.
    pub end: u32,
}

/// Which edge of a valley.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValleySide {
    Left,
    Right,
}

/// An edge of a valley: the floor has one height, below that of both neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corner {
    pub valley: ColumnRange,
    pub side: ValleySide,
}

/// A move at a corner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CornerMove {
    /// Places this bar on the floor.
    Place(u32),
    /// Places no bar on the floor at the edge.
    Leave(Corner),
}

/// Above every height: no bar can rest on a support this high.
const NO_SUPPORT: u64 = DONE - 1;

impl Corner {
    /// Returns the column at the edge.
    pub fn edge(self) -> u32 {
        match self.side {
            ValleySide::Left => self.valley.start,
            ValleySide::Right => self.valley.end - 1,
        }
    }

    /// Returns the bars that may rest on the floor at the edge; among equal bars only the first.
    pub fn bars<'b>(self, partial: &'b PartialPlacement<'_>) -> impl Iterator<Item = u32> + 'b {
        let columns = partial.columns;
        let floor = partial.state.get(Of::Skyline, self.edge());
        let (left, right): (_, &[u32]) = match self.side {
            ValleySide::Left => (columns.starting(self.valley.start), &[]),
            ValleySide::Right => (0..0, columns.ending(self.valley.end)),
        };
        let is_first = move |id: u32| {
            id == 0
                || columns.bars[id as usize - 1] != columns.bars[id as usize]
                || partial.state.least_offset(id - 1) == DONE
        };
        left.chain(right.iter().copied()).filter(move |&id| partial.state.least_offset(id) == floor && is_first(id))
    }

    /// Returns `true` if there is enough slack to leave the strip at the edge empty. Adds to `work`.
    pub fn may_be_left(self, partial: &PartialPlacement<'_>, work: &mut u64) -> bool {
        if partial.state.get(Of::Slack, self.edge()) == 0 {
            return false;
        }
        let (start, heights) = self.strip(partial);
        *work += u64::from(self.valley.end - self.valley.start);
        (start..).zip(heights).all(|(column, height)| {
            *work += partial.columns.covering(column).len() as u64;
            height == DONE || height - partial.state.get(Of::Skyline, column) <= partial.state.get(Of::Slack, column)
        })
    }

    /// Returns the first column of the strip at the edge, and the height up to which each of its columns stays empty if
    /// no bar is placed on the floor there.
    pub fn strip(self, partial: &PartialPlacement<'_>) -> (u32, Vec<u64>) {
        let floor = partial.state.get(Of::Skyline, self.edge());
        let support = self.supports(partial, floor);
        let length = (0..).zip(&support).find(|&(_, &height)| height < NO_SUPPORT).map(|(distance, _)| distance);
        let length = length.unwrap_or(self.valley.end - self.valley.start);
        let strip = match self.side {
            ValleySide::Left => self.valley.start..self.valley.start + length,
            ValleySide::Right => self.valley.end - length..self.valley.end,
        };
        let lowest = |column: u32| {
            let least_offset = |&id: &u32| match partial.state.least_offset(id) {
                offset if offset == floor => {
                    let bar = partial.columns.bars[id as usize];
                    floor.saturating_add(support[(bar.right - bar.left - 1) as usize]).min(NO_SUPPORT)
                }
                offset => offset,
            };
            partial.columns.covering(column).iter().map(least_offset).min().unwrap_or(DONE)
        };
        (strip.start, strip.map(lowest).collect())
    }

    /// Returns, by distance from the edge, the least height of the bars that may rest on the floor and start within
    /// that distance, but not at the edge.
    fn supports(self, partial: &PartialPlacement<'_>, floor: u64) -> Vec<u64> {
        let columns = partial.columns;
        let mut least = NO_SUPPORT;
        let mut supports = Vec::with_capacity((self.valley.end - self.valley.start) as usize);
        for distance in 0..self.valley.end - self.valley.start {
            let (left, right): (_, &[u32]) = match self.side {
                ValleySide::Left => (columns.starting(self.valley.start + distance), &[]),
                ValleySide::Right => (0..0, columns.ending(self.valley.end - distance)),
            };
            if distance > 0 {
                for id in left.chain(right.iter().copied()).filter(|&id| partial.state.least_offset(id) == floor) {
                    least = least.min(columns.bars[id as usize].height);
                }
            }
            supports.push(least);
        }
        supports
    }
}

/// Calls `visit` with every corner of the valleys in `part`, until it returns `true`.
pub fn for_each_corner(partial: &PartialPlacement<'_>, part: ColumnRange, mut visit: impl FnMut(Corner) -> bool) {
    let mut start = part.start;
    let mut before = DONE;
    while start < part.end {
        let floor = partial.state.get(Of::Skyline, start);
        let end = (start..part.end).find(|&column| partial.state.get(Of::Skyline, column) != floor).unwrap_or(part.end);
        let after = if end < part.end { partial.state.get(Of::Skyline, end) } else { DONE };
        if before > floor && after > floor {
            let valley = ColumnRange { start, end };
            if visit(Corner { valley, side: ValleySide::Left }) || visit(Corner { valley, side: ValleySide::Right }) {
                return;
            }
        }
        (start, before) = (end, floor);
    }
}
