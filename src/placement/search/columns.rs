//! A problem as the search sees it: columns instead of steps, units instead of bytes, blocks without size left out.

use super::Effort;
use crate::placement::{Block, BlockId, Bytes, Location, Offset, Placement, Problem};

/// A block over columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bar {
    /// First column that it covers.
    pub left: u32,
    /// First column after it.
    pub right: u32,
    /// In units.
    pub height: u64,
}

/// Pairs of bar and column that are listed at most: 64 MiB.
const LARGEST: u64 = 1 << 24;

/// Bars over columns.
///
/// A column is a set of blocks that are alive together and not all part of another such set: what happens at any other
/// step follows. So blocks of different live ranges may become bars of the same columns, which makes searching easier.
#[derive(Debug)]
pub struct Columns {
    /// Ordered by left, right and height, so that twins are neighbours.
    pub bars: Vec<Bar>,
    /// By bar: which block it is.
    ids: Vec<BlockId>,
    /// By column: the first bar that starts there; one entry more at the end.
    first: Vec<u32>,
    /// All bars, ordered by where they end.
    by_right: Vec<u32>,
    /// By column: the first in `by_right` that ends there; one entry more at the end.
    first_by_right: Vec<u32>,
    /// By column: where its bars begin in `alive`; one entry more at the end.
    first_alive: Vec<u32>,
    alive: Vec<u32>,
    /// Bytes of a unit.
    unit: Bytes,
}

impl Columns {
    /// Blocks that shrink are taken as if they did not. `None` when there is so much of it that looking at it once is
    /// more than the effort, or when the sizes add up to more than can be addressed.
    pub fn of(problem: &Problem, effort: Effort) -> Option<Self> {
        problem.check_total().ok()?;
        let blocks = problem.blocks();
        let unit = blocks.iter().fold(0, |unit, block| greatest_common_divisor(unit, block.size)).max(1);
        let (mut bars, count) = bars(blocks, unit);
        let area = bars.iter().fold(0, |area, (bar, _)| area + u64::from(bar.right - bar.left));
        if area > effort.0.min(LARGEST) {
            return None;
        }
        bars.sort_unstable();
        let (bars, ids): (Vec<Bar>, Vec<BlockId>) = bars.into_iter().unzip();
        let mut by_right: Vec<u32> = (0..).take(bars.len()).collect();
        by_right.sort_by_key(|&bar| bars[bar as usize].right);
        let first = (0..=count).map(|column| position(&bars, |bar| bar.left < column)).collect();
        let first_by_right =
            (0..=count + 1).map(|column| position(&by_right, |&bar| bars[bar as usize].right < column)).collect();
        let (first_alive, alive) = alive(&bars, count);
        Some(Self { bars, ids, first, by_right, first_by_right, first_alive, alive, unit })
    }

    /// How many columns there are.
    pub fn count(&self) -> u32 {
        u32::try_from(self.first.len() - 1).expect("fewer columns than blocks")
    }

    /// The bars that start at `column`.
    pub fn starting(&self, column: u32) -> std::ops::Range<u32> {
        self.starting_within(column, column + 1)
    }

    /// The bars that start in `from..until`.
    pub fn starting_within(&self, from: u32, until: u32) -> std::ops::Range<u32> {
        self.first[from as usize]..self.first[until as usize]
    }

    /// The bars whose last column is the one before `column`.
    pub fn ending(&self, column: u32) -> &[u32] {
        let (from, until) = (self.first_by_right[column as usize], self.first_by_right[column as usize + 1]);
        &self.by_right[from as usize..until as usize]
    }

    /// The bars that cover `column`.
    pub fn alive(&self, column: u32) -> &[u32] {
        let (from, until) = (self.first_alive[column as usize], self.first_alive[column as usize + 1]);
        &self.alive[from as usize..until as usize]
    }

    /// A capacity in units, rounded down: every offset of a placement without needless gaps is a sum of heights.
    pub fn units(&self, capacity: Bytes) -> u64 {
        capacity / self.unit
    }

    /// How many units these bytes take, rounded up.
    pub fn units_up(&self, bytes: Bytes) -> u64 {
        bytes.div_ceil(self.unit)
    }

    /// The sum of all heights: no placement needs more units.
    pub fn total(&self) -> u64 {
        self.bars.iter().map(|bar| bar.height).sum()
    }

    /// The sum of the heights in a column.
    pub fn load_of(&self, column: u32) -> u64 {
        self.alive(column).iter().map(|&bar| self.bars[bar as usize].height).sum()
    }

    /// The largest sum of heights in a column: no placement has fewer units.
    pub fn load(&self) -> u64 {
        (0..self.count()).map(|column| self.load_of(column)).max().unwrap_or(0)
    }

    /// How many units a placement takes.
    pub fn peak(&self, offsets: &[u64]) -> u64 {
        self.bars.iter().zip(offsets).map(|(bar, offset)| offset + bar.height).max().unwrap_or(0)
    }

    /// The placement in which each bar lies at its offset, in units.
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

/// The bars in no order, and the number of columns. A column ends where a block dies after another was born.
fn bars(blocks: &[Block], unit: Bytes) -> (Vec<(Bar, BlockId)>, u32) {
    let mut events = Vec::with_capacity(2 * blocks.len());
    for (id, block) in (0..).zip(blocks).filter(|(_, block)| block.size > 0) {
        events.push((block.first_step, true, id));
        events.push((block.end_step, false, id));
    }
    events.sort_unstable();
    let mut bars: Vec<(Bar, BlockId)> = Vec::with_capacity(events.len() / 2);
    let mut place = vec![0; blocks.len()];
    let (mut column, mut grows) = (0, false);
    for (_, born, id) in events {
        if born {
            place[id as usize] = bars.len();
            bars.push((Bar { left: column, right: 0, height: blocks[id as usize].size / unit }, id));
        } else {
            column += u32::from(grows);
            bars[place[id as usize]].0.right = column;
        }
        grows = born;
    }
    (bars, column)
}

/// By column, the bars that cover it.
fn alive(bars: &[Bar], count: u32) -> (Vec<u32>, Vec<u32>) {
    let mut lists = vec![Vec::new(); count as usize];
    for (id, bar) in (0..).zip(bars) {
        lists[bar.left as usize..bar.right as usize].iter_mut().for_each(|list: &mut Vec<u32>| list.push(id));
    }
    let mut first = vec![0];
    let mut alive = Vec::new();
    for list in lists {
        alive.extend(list);
        first.push(u32::try_from(alive.len()).expect("few pairs of bar and column"));
    }
    (first, alive)
}
