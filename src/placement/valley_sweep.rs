//! Fills the valleys of a skyline over time, from the ground up.
//!
//! After Burke's best fit for strip packing and Sekiyama's use of it for memory. No conflicts are computed:
//! memory stays linear in the number of blocks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Block, Bytes, Placement, Problem, Spot, Step, Strategy};

/// Looks at a valley of the skyline, puts the best-ranked block whose whole lifetime lies inside it onto the floor,
/// or raises the floor to the lower wall when no block fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValleySweep {
    /// The earliest birth first.
    Start,
    /// The largest size times length first.
    Area,
    /// The largest size first.
    Size,
    /// The longest lifetime first.
    Length,
    /// Length weighs more than size: length times the root of the size.
    LengthThenSize,
    /// Size weighs more than length: size times the root of the length.
    SizeThenLength,
}

impl ValleySweep {
    /// Every rank.
    pub const ALL: [Self; 6] =
        [Self::Area, Self::Size, Self::Length, Self::LengthThenSize, Self::SizeThenLength, Self::Start];

    fn ranks(self, blocks: &[Block]) -> Vec<u32> {
        let mut order: Vec<usize> = (0..blocks.len()).collect();
        order.sort_by_cached_key(|&id| (Reverse(self.weight(&blocks[id])), id));
        let mut ranks = vec![0; blocks.len()];
        for (rank, id) in (0..).zip(order) {
            ranks[id] = rank;
        }
        ranks
    }

    fn weight(self, block: &Block) -> u128 {
        let (size, length) = (u128::from(block.size), u128::from(block.death - block.birth));
        match self {
            Self::Start => u128::from(u64::MAX - u64::from(block.birth)),
            Self::Area => size * length,
            Self::Size => size,
            Self::Length => length,
            // Squares in place of roots keep the weights whole numbers.
            Self::LengthThenSize => length * length * size,
            Self::SizeThenLength => ((size >> 5) * (size >> 5)).saturating_mul(length),
        }
    }
}

impl Strategy for ValleySweep {
    fn name(&self) -> &'static str {
        match self {
            Self::Start => "valley sweep by start",
            Self::Area => "valley sweep by area",
            Self::Size => "valley sweep by size",
            Self::Length => "valley sweep by length",
            Self::LengthThenSize => "valley sweep by length and size",
            Self::SizeThenLength => "valley sweep by size and length",
        }
    }

    /// One chunk only: with a limit on chunks the answer may be larger than allowed, and the caller has to look.
    fn place(&self, problem: &Problem) -> Placement {
        let blocks = problem.blocks();
        let mut spots = vec![Spot::default(); blocks.len()];
        let mut waiting = Waiting::new(blocks, &self.ranks(blocks));
        let mut skyline = Skyline::new(blocks.iter().map(|block| block.death).max().unwrap_or(0));
        let mut peak = 0;
        while let Some(valley) = skyline.lowest() {
            let Segment { start, end, height } = skyline.list[valley].segment;
            match waiting.take_best(start, end) {
                Some(id) => {
                    spots[id] = Spot { chunk: 0, offset: height };
                    peak = peak.max(height + blocks[id].size);
                    skyline.put(valley, &blocks[id]);
                }
                None if waiting.is_empty() => break,
                None => skyline.raise(valley),
            }
        }
        let chunks = if blocks.is_empty() { vec![] } else { vec![peak] };
        Placement { spots, chunks }
    }
}

/// A stretch of time at one height.
#[derive(Clone, Copy)]
struct Segment {
    start: Step,
    end: Step,
    height: Bytes,
}

/// A segment in the list, and its neighbours in time. Segments never change: they are replaced, and then stay unlinked.
struct Linked {
    segment: Segment,
    before: Option<usize>,
    after: Option<usize>,
    linked: bool,
}

/// The tops of what has been placed, as segments in the order of time. Neighbours have different heights.
struct Skyline {
    list: Vec<Linked>,
    /// Height, start and index; entries whose segment is no longer linked are skipped.
    heap: BinaryHeap<Reverse<(Bytes, Step, usize)>>,
}

impl Skyline {
    fn new(end: Step) -> Self {
        let mut skyline = Self { list: Vec::new(), heap: BinaryHeap::new() };
        if end > 0 {
            skyline.link(Segment { start: 0, end, height: 0 }, None, None);
        }
        skyline
    }

    /// The index of the lowest segment, so of one that is lower than both neighbours.
    fn lowest(&mut self) -> Option<usize> {
        while let Some(&Reverse((_, _, index))) = self.heap.peek() {
            if self.list[index].linked {
                return Some(index);
            }
            self.heap.pop();
        }
        None
    }

    fn put(&mut self, valley: usize, block: &Block) {
        let floor = self.list[valley].segment;
        let top = Segment { start: block.birth, end: block.death, height: floor.height + block.size };
        self.replace(valley, [Segment { end: block.birth, ..floor }, top, Segment { start: block.death, ..floor }]);
    }

    /// Raises a segment to the lower of its walls; drops it when it has none.
    fn raise(&mut self, valley: usize) {
        let Linked { segment, before, after, .. } = self.list[valley];
        let walls = before.into_iter().chain(after).map(|wall| self.list[wall].segment.height);
        match walls.min() {
            Some(height) => self.replace(valley, [Segment { height, ..segment }]),
            None => self.list[valley].linked = false,
        }
    }

    /// Puts `pieces`, which cover the same time, in the place of a segment; joins neighbours of the same height.
    fn replace<const N: usize>(&mut self, old: usize, pieces: [Segment; N]) {
        let Linked { segment, mut before, mut after, .. } = self.list[old];
        self.list[old].linked = false;
        for mut piece in pieces.into_iter().filter(|piece| piece.start < piece.end) {
            if let Some(joined) = self.unlink_equal(before, piece.height) {
                piece.start = joined.segment.start;
                before = joined.before;
            }
            let is_last = piece.end == segment.end;
            if let Some(joined) = self.unlink_equal(after.filter(|_| is_last), piece.height) {
                piece.end = joined.segment.end;
                after = joined.after;
            }
            before = Some(self.link(piece, before, after));
        }
    }

    /// Takes a neighbour out of the list when it has this height.
    fn unlink_equal(&mut self, index: Option<usize>, height: Bytes) -> Option<Linked> {
        let neighbour = &mut self.list[index?];
        (neighbour.segment.height == height).then(|| {
            neighbour.linked = false;
            Linked { linked: false, ..*neighbour }
        })
    }

    fn link(&mut self, segment: Segment, before: Option<usize>, after: Option<usize>) -> usize {
        let index = self.list.len();
        self.list.push(Linked { segment, before, after, linked: true });
        if let Some(before) = before {
            self.list[before].after = Some(index);
        }
        if let Some(after) = after {
            self.list[after].before = Some(index);
        }
        self.heap.push(Reverse((segment.height, segment.start, index)));
        index
    }
}

/// The blocks without a spot, in a tree over their births.
struct Waiting {
    births: Vec<Step>,
    /// A complete binary tree; by subtree the least death and the least rank of those that wait.
    tree: Vec<(Step, u32)>,
    leafs: usize,
}

/// A subtree in which nobody waits.
const NOBODY: (Step, u32) = (Step::MAX, u32::MAX);

impl Waiting {
    fn new(blocks: &[Block], ranks: &[u32]) -> Self {
        let leafs = blocks.len().next_power_of_two();
        let mut tree = vec![NOBODY; 2 * leafs];
        for (i, block) in blocks.iter().enumerate() {
            tree[leafs + i] = (block.death, ranks[i]);
        }
        let mut waiting = Self { births: blocks.iter().map(|block| block.birth).collect(), tree, leafs };
        for node in (1..leafs).rev() {
            waiting.update(node);
        }
        waiting
    }

    fn is_empty(&self) -> bool {
        self.tree[1] == NOBODY
    }

    fn update(&mut self, node: usize) {
        let (left, right) = (self.tree[2 * node], self.tree[2 * node + 1]);
        self.tree[node] = (left.0.min(right.0), left.1.min(right.1));
    }

    /// Takes out the block of the least rank among those that live within `start..end`.
    fn take_best(&mut self, start: Step, end: Step) -> Option<usize> {
        let from = self.births.partition_point(|&birth| birth < start);
        let until = self.births.partition_point(|&birth| birth < end);
        let mut best = (u32::MAX, usize::MAX);
        self.search(1, 0..self.leafs, &(from..until), end, &mut best);
        let (rank, id) = best;
        if rank == u32::MAX {
            return None;
        }
        let mut node = self.leafs + id;
        self.tree[node] = NOBODY;
        while node > 1 {
            node /= 2;
            self.update(node);
        }
        Some(id)
    }

    fn search(
        &self,
        node: usize,
        span: std::ops::Range<usize>,
        wanted: &std::ops::Range<usize>,
        end: Step,
        best: &mut (u32, usize),
    ) {
        let (least_death, least_rank) = self.tree[node];
        let outside = span.end <= wanted.start || wanted.end <= span.start;
        if outside || least_death > end || least_rank >= best.0 {
            return;
        }
        if node >= self.leafs {
            *best = (least_rank, node - self.leafs);
            return;
        }
        let middle = span.start.midpoint(span.end);
        self.search(2 * node, span.start..middle, wanted, end, best);
        self.search(2 * node + 1, middle..span.end, wanted, end, best);
    }
}
