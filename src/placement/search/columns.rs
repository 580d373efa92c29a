//! A problem in columns instead of steps and units instead of bytes, without the blocks that have no bytes.

use crate::placement::timeline::sum_of_ranges;
use crate::placement::{Block, BlockId, Bytes, Effort, Location, Offset, Placement, Problem};

/// A block, as a range of columns and a height.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bar {
    /// First column.
    pub left: u32,
    /// First column after the last.
    pub right: u32,
    /// In units.
    pub height: u64,
}

/// The most pairs of bar and column that are listed: 64 MiB.
const MOST_PAIRS: u64 = 1 << 24;

/// Bars over columns.
///
/// A column is a maximal set of blocks that are live at the same step: a placement without overlaps in columns has none
/// at any step. Blocks with different live ranges may become bars of the same columns, which makes the search easier.
#[derive(Debug)]
pub struct Columns {
    /// Ordered by left, right and height, so that equal bars are adjacent.
    pub bars: Vec<Bar>,
    /// By bar: its block.
    ids: Vec<BlockId>,
    /// By column: the first bar that starts there; one entry more at the end.
    first_bar: Vec<u32>,
    /// All bars, ordered by `right`.
    by_right: Vec<u32>,
    /// By column: the index in `by_right` of the first bar that ends there; one entry more at the end.
    first_by_right: Vec<u32>,
    /// By column: where its bars start in `covering`; one entry more at the end.
    first_covering: Vec<u32>,
    covering: Vec<u32>,
    /// By column: the sum of the heights of its bars.
    live_units: Vec<u64>,
    /// Bytes of a unit.
    unit: Bytes,
}

impl Columns {
    /// Computes the columns of `problem`, with all blocks at their full sizes. Returns `None` if reading them once
    /// takes more than `effort`, or if the sizes add up to more than can be addressed.
    pub fn of(problem: &Problem, effort: Effort) -> Option<Self> {
        problem.check_total().ok()?;
        let blocks = problem.blocks();
        let unit = blocks.iter().fold(0, |unit, block| greatest_common_divisor(unit, block.size)).max(1);
        let (mut bars, count) = bars(blocks, unit);
        let area = bars.iter().fold(0, |area, (bar, _)| area + u64::from(bar.right - bar.left));
        if area > effort.in_units().min(MOST_PAIRS) {
            return None;
        }
        bars.sort_unstable();
        let (bars, ids): (Vec<Bar>, Vec<BlockId>) = bars.into_iter().unzip();
        let mut by_right: Vec<u32> = (0..).take(bars.len()).collect();
        by_right.sort_by_key(|&bar| bars[bar as usize].right);
        let first_bar = (0..=count).map(|column| position(&bars, |bar| bar.left < column)).collect();
        let first_by_right =
            (0..=count + 1).map(|column| position(&by_right, |&bar| bars[bar as usize].right < column)).collect();
        let (first_covering, covering) = covering(&bars, count);
        let ranges = bars.iter().map(|bar| (bar.left as usize..bar.right as usize, bar.height));
        let live_units = sum_of_ranges(count as usize, ranges);
        Some(Self { bars, ids, first_bar, by_right, first_by_right, first_covering, covering, live_units, unit })
    }

    /// Returns the number of columns.
    pub fn count(&self) -> u32 {
        u32::try_from(self.first_bar.len() - 1).expect("fewer columns than blocks")
    }

    /// Returns the bars that start at `column`.
    pub fn starting(&self, column: u32) -> std::ops::Range<u32> {
        self.starting_within(column, column + 1)
    }

    /// Returns the bars that start in `from..until`.
    pub fn starting_within(&self, from: u32, until: u32) -> std::ops::Range<u32> {
        self.first_bar[from as usize]..self.first_bar[until as usize]
    }

    /// Returns the bars whose last column is the one before `column`.
    pub fn ending(&self, column: u32) -> &[u32] {
        let (from, until) = (self.first_by_right[column as usize], self.first_by_right[column as usize + 1]);
        &self.by_right[from as usize..until as usize]
    }

    /// Returns the bars that cover `column`.
    pub fn covering(&self, column: u32) -> &[u32] {
        let (from, until) = (self.first_covering[column as usize], self.first_covering[column as usize + 1]);
        &self.covering[from as usize..until as usize]
    }

    /// Converts a capacity to units, rounded down: every offset of a compact placement is a sum of heights.
    pub fn units(&self, capacity: Bytes) -> u64 {
        capacity / self.unit
    }

    /// Converts a size to units, rounded up.
    pub fn units_up(&self, bytes: Bytes) -> u64 {
        bytes.div_ceil(self.unit)
    }

    /// Returns the sum of all heights. No placement needs more units.
    pub fn total(&self) -> u64 {
        self.bars.iter().map(|bar| bar.height).sum()
    }

    /// Returns the sum of the heights in each column: the memory profile in units.
    pub fn live_units(&self) -> &[u64] {
        &self.live_units
    }

    /// Returns the largest sum of heights in a column. No placement needs fewer units.
    pub fn lower_bound(&self) -> u64 {
        self.live_units.iter().copied().max().unwrap_or(0)
    }

    /// Returns the units that a placement takes.
    pub fn height(&self, offsets: &[u64]) -> u64 {
        self.bars.iter().zip(offsets).map(|(bar, offset)| offset + bar.height).max().unwrap_or(0)
    }

    /// Converts the offsets of bars, in units, to a placement of `problem`.
    pub fn placement(&self, problem: &Problem, offsets: &[u64]) -> Placement {
        let mut locations = vec![Location::default(); problem.blocks().len()];
        for (&id, &offset) in self.ids.iter().zip(offsets) {
            locations[id as usize].offset = offset * self.unit;
        }
        let peak: Option<Offset> =
            problem.blocks().iter().zip(&locations).map(|(block, location)| location.offset + block.size).max();
        Placement { locations, chunks: peak.into_iter().collect() }
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn position<T>(list: &[T], is_before: impl Fn(&T) -> bool) -> u32 {
    u32::try_from(list.partition_point(is_before)).expect("fewer than 2^32 bars")
}

/// Returns the bars in no order, and the number of columns. A column ends where a block ends after another has started.
fn bars(blocks: &[Block], unit: Bytes) -> (Vec<(Bar, BlockId)>, u32) {
    let mut events = Vec::with_capacity(2 * blocks.len());
    for (id, block) in (0..).zip(blocks).filter(|(_, block)| block.size > 0) {
        events.push((block.first_step, true, id));
        events.push((block.end_step, false, id));
    }
    events.sort_unstable();
    let mut bars: Vec<(Bar, BlockId)> = Vec::with_capacity(events.len() / 2);
    let mut index = vec![0; blocks.len()];
    let (mut column, mut grows) = (0, false);
    for (_, starts, id) in events {
        if starts {
            index[id as usize] = bars.len();
            bars.push((Bar { left: column, right: 0, height: blocks[id as usize].size / unit }, id));
        } else {
            column += u32::from(grows);
            bars[index[id as usize]].0.right = column;
        }
        grows = starts;
    }
    (bars, column)
}

/// Returns, by column, where its bars start in the list of all pairs, and that list.
fn covering(bars: &[Bar], count: u32) -> (Vec<u32>, Vec<u32>) {
    let mut lists = vec![Vec::new(); count as usize];
    for (id, bar) in (0..).zip(bars) {
        lists[bar.left as usize..bar.right as usize].iter_mut().for_each(|list: &mut Vec<u32>| list.push(id));
    }
    let mut first = vec![0];
    let mut covering = Vec::new();
    for list in lists {
        covering.extend(list);
        first.push(u32::try_from(covering.len()).expect("few pairs of bar and column"));
    }
    (first, covering)
}
