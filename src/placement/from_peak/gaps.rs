//! The live blocks and the gaps between them, at one point in time.

use crate::placement::{BlockId, Bytes, Offset, Step, refill};

/// A step, or its bitwise complement where time runs backward, so that later is larger.
pub type Time = Step;

/// The lower or the upper side of a block or a gap, as an index.
type Side = usize;

const LOW: Side = 0;
const HIGH: Side = 1;

/// Most problems have fewer gaps at any time.
const FEW_GAPS: usize = 16;

/// Index in the list of gaps.
type GapIndex = u32;

/// The neighbour of a block: another block, or a gap, which has the highest bit set.
#[derive(Clone, Copy, Debug)]
struct Neighbour(u32);

impl Neighbour {
    const GAP_BIT: u32 = 1 << 31;

    fn block(id: BlockId) -> Self {
        Self(id)
    }

    fn gap(index: GapIndex) -> Self {
        Self(Self::GAP_BIT | index)
    }

    fn is_gap(self) -> bool {
        self.0 & Self::GAP_BIT != 0
    }

    /// Returns the index of a gap; meaningless for a block.
    fn gap_index(self) -> GapIndex {
        self.0 ^ Self::GAP_BIT
    }

    /// Returns the id of a block; meaningless for a gap.
    fn block_id(self) -> BlockId {
        self.0
    }
}

/// A live block, or the wall at both ends of memory.
#[derive(Clone, Copy, Debug)]
struct LinkedBlock {
    /// The offsets of its start and its end.
    sides: [Offset; 2],
    beside: [Neighbour; 2],
    end: Time,
}

/// Free bytes between two blocks.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// The offsets of its start and its end.
    sides: [Offset; 2],
    beside: [BlockId; 2],
    /// When the two blocks end.
    ends: [Time; 2],
}

impl Gap {
    fn size(&self) -> Bytes {
        self.sides[HIGH] - self.sides[LOW]
    }

    /// Returns the cost of a block with this `end` at the better side.
    fn cost(&self, end: Time) -> u64 {
        let [low, high] = self.ends.map(|neighbour| cost(neighbour, end));
        low.min(high)
    }

    /// Returns the side at which a block with this `end` costs less.
    fn better_side(&self, end: Time) -> Side {
        let [low, high] = self.ends.map(|neighbour| cost(neighbour, end));
        usize::from(low > high)
    }
}

/// The live blocks, linked in the order of their offsets, and a list of all gaps between them, in no order. A block
/// that starts or ends changes only its neighbours. A wall closes the ring: its upper side is where memory starts, its
/// lower side where memory ends, and it is always live.
#[derive(Debug, Default)]
pub struct Gaps {
    /// By block; the wall comes last.
    nodes: Vec<LinkedBlock>,
    gaps: Vec<Gap>,
    wall: BlockId,
}

impl Gaps {
    /// Makes room for `blocks` blocks, none of them placed. To be cleared before use.
    pub fn reset(&mut self, blocks: usize) {
        let is_block = |&wall: &BlockId| wall < Neighbour::GAP_BIT;
        let wall = BlockId::try_from(blocks).ok().filter(is_block).expect("fewer than 2^31 blocks");
        let unplaced = LinkedBlock { sides: [0; 2], beside: [Neighbour::block(0); 2], end: 0 };
        refill(&mut self.nodes, unplaced, blocks + 1);
        self.gaps.clear();
        self.gaps.reserve(FEW_GAPS);
        self.wall = wall;
    }

    /// Removes all live blocks and sets the capacity in bytes. Offsets of blocks placed before stay readable.
    pub fn clear(&mut self, capacity: Bytes) {
        let wall = self.wall;
        self.gaps.clear();
        self.nodes[wall as usize] =
            LinkedBlock { sides: [capacity, 0], beside: [Neighbour::block(wall); 2], end: Time::MAX };
        if capacity > 0 {
            self.open(0, capacity, [wall; 2]);
        }
    }

    /// Returns the bytes between the walls.
    pub fn capacity(&self) -> Bytes {
        self.nodes[self.wall as usize].sides[LOW]
    }

    /// Returns the offset of each block, live or dead; 0 for blocks that were never placed.
    pub fn offsets(&self) -> impl Iterator<Item = Offset> {
        self.nodes[..self.wall as usize].iter().map(|node| node.sides[LOW])
    }

    /// Places a block on top of all others. The gap there must be large enough.
    pub fn stack(&mut self, block: BlockId, size: Bytes, end: Time) {
        let top = self.nodes[self.wall as usize].beside[LOW];
        self.put(block, size, end, top.gap_index(), |_| LOW);
    }

    /// Places a block in the best gap. If there is none, raises the capacity by as much as is needed, to `limit` bytes
    /// at most; returns `None` if that is not enough.
    pub fn place(&mut self, block: BlockId, size: Bytes, end: Time, limit: Bytes) -> Option<()> {
        let index = match self.best(size, end) {
            Some(index) => index,
            None => self.raise(size, limit)?,
        };
        self.put(block, size, end, index, |gap| gap.better_side(end));
        Some(())
    }

    /// Returns the best gap for a block. A gap of exactly its size comes first, then one beside the neighbour that ends
    /// the least time after it, then one beside the neighbour that ends the least time before it; among equals the
    /// smallest.
    fn best(&self, size: Bytes, end: Time) -> Option<GapIndex> {
        if let [only] = self.gaps.as_slice() {
            return (only.size() >= size).then_some(0);
        }
        let (mut least_cost, mut least_size) = (u64::MAX, Bytes::MAX);
        let mut best = None;
        for (index, gap) in (0..).zip(&self.gaps) {
            let gap_size = gap.size();
            if gap_size == size {
                return Some(index);
            }
            if gap_size > size {
                let cost = gap.cost(end);
                if cost < least_cost || cost == least_cost && gap_size < least_size {
                    (least_cost, least_size) = (cost, gap_size);
                    best = Some(index);
                }
            }
        }
        best
    }

    /// Raises the capacity until the gap on top has `size` bytes, and returns that gap.
    #[cold]
    fn raise(&mut self, size: Bytes, limit: Bytes) -> Option<GapIndex> {
        let top = self.nodes[self.wall as usize].beside[LOW];
        let gap = top.is_gap().then(|| top.gap_index());
        let start = match gap {
            Some(gap) => self.gaps[gap as usize].sides[LOW],
            None => self.nodes[top.block_id() as usize].sides[HIGH],
        };
        let capacity = start + size;
        if capacity > limit {
            return None;
        }
        self.nodes[self.wall as usize].sides[LOW] = capacity;
        match gap {
            Some(gap) => self.gaps[gap as usize].sides[HIGH] = capacity,
            None => self.open(start, capacity, [top.block_id(), self.wall]),
        }
        Some(self.nodes[self.wall as usize].beside[LOW].gap_index())
    }

    // Called for each block, from two functions.
    #[inline(always)]
    fn put(&mut self, block: BlockId, size: Bytes, end: Time, index: GapIndex, side: impl FnOnce(&Gap) -> Side) {
        let gap = &mut self.gaps[index as usize];
        let [low, high] = gap.sides;
        if high - low == size {
            let [below, above] = gap.beside;
            let beside = gap.beside.map(Neighbour::block);
            self.nodes[block as usize] = LinkedBlock { sides: gap.sides, beside, end };
            self.nodes[below as usize].beside[HIGH] = Neighbour::block(block);
            self.nodes[above as usize].beside[LOW] = Neighbour::block(block);
            self.remove(index);
            return;
        }
        let side = side(gap);
        let neighbour = gap.beside[side];
        let (this, other) = (Neighbour::gap(index), Neighbour::block(neighbour));
        let node = if side == LOW {
            let top = low + size;
            gap.sides[LOW] = top;
            LinkedBlock { sides: [low, top], beside: [other, this], end }
        } else {
            let bottom = high - size;
            gap.sides[HIGH] = bottom;
            LinkedBlock { sides: [bottom, high], beside: [this, other], end }
        };
        gap.beside[side] = block;
        gap.ends[side] = end;
        self.nodes[neighbour as usize].beside[1 - side] = Neighbour::block(block);
        self.nodes[block as usize] = node;
    }

    /// Removes a block that has ended. Does nothing for a block that was never placed, since it has no bytes.
    pub fn free(&mut self, block: BlockId) {
        let LinkedBlock { sides, beside, .. } = self.nodes[block as usize];
        if sides[LOW] == sides[HIGH] {
            return;
        }
        match beside.map(Neighbour::is_gap) {
            [false, false] => self.open(sides[LOW], sides[HIGH], beside.map(Neighbour::block_id)),
            [true, false] => self.widen(beside[LOW], HIGH, sides[HIGH], beside[HIGH].block_id()),
            [false, true] => self.widen(beside[HIGH], LOW, sides[LOW], beside[LOW].block_id()),
            [true, true] => {
                let above = beside[HIGH].gap_index();
                let Gap { sides, beside: beyond, .. } = self.gaps[above as usize];
                self.widen(beside[LOW], HIGH, sides[HIGH], beyond[HIGH]);
                self.remove(above);
            }
        }
    }

    /// Adds a gap between two blocks.
    // The rarest case of a block's end: not inlined, so that the others stay short.
    #[inline(never)]
    fn open(&mut self, start: Offset, end: Offset, beside: [BlockId; 2]) {
        let link = Neighbour::gap(GapIndex::try_from(self.gaps.len()).expect("no more gaps than blocks"));
        let [below, above] = beside.map(|neighbour| neighbour as usize);
        self.nodes[below].beside[HIGH] = link;
        self.nodes[above].beside[LOW] = link;
        let ends = [below, above].map(|neighbour| self.nodes[neighbour].end);
        self.gaps.push(Gap { sides: [start, end], beside, ends });
    }

    /// Moves one side of a gap to `offset`, where the block `neighbour` is beside it.
    #[inline]
    fn widen(&mut self, link: Neighbour, side: Side, offset: Offset, neighbour: BlockId) {
        let node = &mut self.nodes[neighbour as usize];
        node.beside[1 - side] = link;
        let gap = &mut self.gaps[link.gap_index() as usize];
        gap.sides[side] = offset;
        gap.beside[side] = neighbour;
        gap.ends[side] = node.end;
    }

    #[inline]
    fn remove(&mut self, index: GapIndex) {
        self.gaps.swap_remove(index as usize);
        if let Some(moved) = self.gaps.get(index as usize) {
            let link = Neighbour::gap(index);
            let [below, above] = moved.beside;
            self.nodes[below as usize].beside[HIGH] = link;
            self.nodes[above as usize].beside[LOW] = link;
        }
    }
}

/// Returns the cost of an offset beside a neighbour: how long the neighbour outlasts the block; if it does not, more
/// than any such time, and the more the earlier it ends.
fn cost(neighbour_end: Time, end: Time) -> u64 {
    let difference = i64::from(neighbour_end) - i64::from(end);
    // A negative difference keeps its sign, which becomes the highest bit, and all other bits change.
    difference.cast_unsigned() ^ (difference >> 63).cast_unsigned() >> 1
}

#[cfg(test)]
impl Gaps {
    /// Returns the range of each gap, from the lowest to the highest.
    pub(super) fn ranges(&self) -> Vec<std::ops::Range<Offset>> {
        let mut ranges: Vec<_> = self.gaps.iter().map(|gap| gap.sides[LOW]..gap.sides[HIGH]).collect();
        ranges.sort_by_key(|range| range.start);
        ranges
    }
}
