//! The blocks alive at a moment, and the gaps between them.

use crate::placement::{BlockId, Bytes, Offset, Step};

/// A step, counted from the end where time goes backward.
pub type Moment = Step;

/// An end of a block or of a gap, as an index.
type Side = usize;

const LOW: Side = 0;
const HIGH: Side = 1;

/// What lies beside a block: another block, or a gap, which is [`GAP`] and its index in the list of gaps.
type Neighbour = u32;

const GAP: Neighbour = 1 << 31;

/// Where a gap is in the list of gaps.
type GapIndex = u32;

/// A block that is alive, or the wall at both ends of memory.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Where it starts and ends.
    ends: [Offset; 2],
    beside: [Neighbour; 2],
    end_step: Moment,
}

/// Free bytes between two blocks, and what is known of these.
#[derive(Clone, Copy, Debug)]
struct Gap {
    ends: [Offset; 2],
    beside: [BlockId; 2],
    deaths: [Moment; 2],
}

impl Gap {
    fn room(&self) -> Bytes {
        self.ends[HIGH] - self.ends[LOW]
    }

    /// What it costs to put a block that dies at `end_step` at the better end.
    fn cost(&self, end_step: Moment) -> u64 {
        let [low, high] = self.deaths.map(|neighbour| cost(neighbour, end_step));
        low.min(high)
    }

    /// Which end that is.
    fn better_side(&self, end_step: Moment) -> Side {
        let [low, high] = self.deaths.map(|neighbour| cost(neighbour, end_step));
        usize::from(low > high)
    }
}

/// The blocks alive, linked in the order of their offsets, and a list of all gaps between them, in no order. What is
/// born or dies changes its neighbours alone. The wall closes the ring: it ends where memory starts, and never dies.
#[derive(Debug)]
pub struct Gaps {
    /// By block, and the wall.
    places: Vec<Place>,
    gaps: Vec<Gap>,
    wall: BlockId,
}

impl Gaps {
    /// No memory yet, for so many blocks.
    pub fn new(blocks: usize) -> Self {
        let wall = BlockId::try_from(blocks).ok().filter(|&wall| wall < GAP).expect("fewer than 2^31 blocks");
        let nowhere = Place { ends: [0; 2], beside: [0; 2], end_step: 0 };
        Self { places: vec![nowhere; blocks + 1], gaps: Vec::new(), wall }
    }

    /// Nobody is alive any more, and there are `capacity` bytes.
    pub fn clear(&mut self, capacity: Bytes) {
        let wall = self.wall;
        self.gaps.clear();
        self.places[wall as usize] = Place { ends: [capacity, 0], beside: [wall; 2], end_step: Moment::MAX };
        if capacity > 0 {
            self.open(0, capacity, [wall; 2]);
        }
    }

    /// Bytes within the walls.
    pub fn capacity(&self) -> Bytes {
        self.places[self.wall as usize].ends[LOW]
    }

    /// By block: where it lies, or lay before it died; 0 for those that never did.
    pub fn offsets(&self) -> impl Iterator<Item = Offset> {
        self.places[..self.wall as usize].iter().map(|place| place.ends[LOW])
    }

    /// Lays a block on top of all others, where there is room for it.
    pub fn stack(&mut self, block: BlockId, size: Bytes, end_step: Moment) {
        let top = self.places[self.wall as usize].beside[LOW];
        self.put(block, size, end_step, top ^ GAP, LOW);
    }

    /// Gives a newborn block the best location there is. Where there is none the walls move apart as far as it needs, but
    /// not beyond `limit` bytes.
    pub fn place(&mut self, block: BlockId, size: Bytes, end_step: Moment, limit: Bytes) -> Option<()> {
        let index = match self.best(size, end_step) {
            Some(index) => index,
            None => self.raise(size, limit)?,
        };
        let side = self.gaps[index as usize].better_side(end_step);
        self.put(block, size, end_step, index, side);
        Some(())
    }

    /// A gap that is filled to the last byte comes first, then one beside a neighbour that outlives the block by the
    /// least, then one beside a neighbour that dies before it by the least; of equal ones the smallest.
    fn best(&self, size: Bytes, end_step: Moment) -> Option<GapIndex> {
        if let [only] = self.gaps.as_slice() {
            return (only.room() >= size).then_some(0);
        }
        let (mut least, mut least_room) = (u64::MAX, Bytes::MAX);
        let mut best = None;
        for (index, gap) in (0..).zip(&self.gaps) {
            let room = gap.room();
            if room == size {
                return Some(index);
            }
            if room > size {
                let cost = gap.cost(end_step);
                if cost < least || cost == least && room < least_room {
                    (least, least_room) = (cost, room);
                    best = Some(index);
                }
            }
        }
        best
    }

    /// Makes room on top.
    #[cold]
    fn raise(&mut self, size: Bytes, limit: Bytes) -> Option<GapIndex> {
        let top = self.places[self.wall as usize].beside[LOW];
        let gap = (top & GAP != 0).then_some(top ^ GAP);
        let start = match gap {
            Some(gap) => self.gaps[gap as usize].ends[LOW],
            None => self.places[top as usize].ends[HIGH],
        };
        let capacity = start + size;
        if capacity > limit {
            return None;
        }
        self.places[self.wall as usize].ends[LOW] = capacity;
        match gap {
            Some(gap) => self.gaps[gap as usize].ends[HIGH] = capacity,
            None => self.open(start, capacity, [top, self.wall]),
        }
        Some(self.places[self.wall as usize].beside[LOW] ^ GAP)
    }

    // Called for each block, from two places.
    #[inline(always)]
    fn put(&mut self, block: BlockId, size: Bytes, end_step: Moment, index: GapIndex, side: Side) {
        let gap = &mut self.gaps[index as usize];
        let [low, high] = gap.ends;
        if high - low == size {
            self.places[block as usize] = Place { ends: gap.ends, beside: gap.beside, end_step };
            let [below, above] = gap.beside;
            self.places[below as usize].beside[HIGH] = block;
            self.places[above as usize].beside[LOW] = block;
            self.remove(index);
            return;
        }
        let neighbour = gap.beside[side];
        let gap_link = GAP | index;
        let place = if side == LOW {
            let end = low + size;
            gap.ends[LOW] = end;
            Place { ends: [low, end], beside: [neighbour, gap_link], end_step }
        } else {
            let start = high - size;
            gap.ends[HIGH] = start;
            Place { ends: [start, high], beside: [gap_link, neighbour], end_step }
        };
        gap.beside[side] = block;
        gap.deaths[side] = end_step;
        self.places[neighbour as usize].beside[1 - side] = block;
        self.places[block as usize] = place;
    }

    /// A block dies. One that never got a place, since it has no bytes, leaves none.
    pub fn free(&mut self, block: BlockId) {
        let Place { ends, beside, .. } = self.places[block as usize];
        if ends[LOW] == ends[HIGH] {
            return;
        }
        match beside.map(|neighbour| neighbour & GAP != 0) {
            [false, false] => self.open(ends[LOW], ends[HIGH], beside),
            [true, false] => self.widen(beside[LOW], HIGH, ends[HIGH], beside[HIGH]),
            [false, true] => self.widen(beside[HIGH], LOW, ends[LOW], beside[LOW]),
            [true, true] => {
                let above = beside[HIGH] ^ GAP;
                let Gap { ends, beside: beyond, .. } = self.gaps[above as usize];
                self.widen(beside[LOW], HIGH, ends[HIGH], beyond[HIGH]);
                self.remove(above);
            }
        }
    }

    /// A gap between two neighbours.
    // The rarest way in which a block dies: apart, so that the others stay short.
    #[inline(never)]
    fn open(&mut self, start: Offset, end: Offset, beside: [BlockId; 2]) {
        let link = GAP | GapIndex::try_from(self.gaps.len()).expect("no more gaps than blocks");
        let [below, above] = beside.map(|neighbour| neighbour as usize);
        self.places[below].beside[HIGH] = link;
        self.places[above].beside[LOW] = link;
        let deaths = [below, above].map(|neighbour| self.places[neighbour].end_step);
        self.gaps.push(Gap { ends: [start, end], beside, deaths });
    }

    /// A gap gets the bytes up to `end` at `side`, where a block is its neighbour from here on.
    #[inline]
    fn widen(&mut self, link: Neighbour, side: Side, end: Offset, neighbour: BlockId) {
        let place = &mut self.places[neighbour as usize];
        place.beside[1 - side] = link;
        let gap = &mut self.gaps[(link ^ GAP) as usize];
        gap.ends[side] = end;
        gap.beside[side] = neighbour;
        gap.deaths[side] = place.end_step;
    }

    #[inline]
    fn remove(&mut self, index: GapIndex) {
        self.gaps.swap_remove(index as usize);
        if let Some(moved) = self.gaps.get(index as usize) {
            let link = GAP | index;
            let [below, above] = moved.beside;
            self.places[below as usize].beside[HIGH] = link;
            self.places[above as usize].beside[LOW] = link;
        }
    }
}

/// Of a location beside a neighbour: by how much that outlives the block; beyond all such differences, by how much it dies
/// before.
fn cost(neighbour_death: Moment, end_step: Moment) -> u64 {
    let difference = i64::from(neighbour_death) - i64::from(end_step);
    // Of a negative number the sign stays, which is the highest digit, and all other digits change.
    difference.cast_unsigned() ^ (difference >> 63).cast_unsigned() >> 1
}

#[cfg(test)]
impl Gaps {
    /// Where each gap starts and ends, from the lowest to the highest.
    pub(super) fn ranges(&self) -> Vec<std::ops::Range<Offset>> {
        let mut ranges: Vec<_> = self.gaps.iter().map(|gap| gap.ends[LOW]..gap.ends[HIGH]).collect();
        ranges.sort_by_key(|range| range.start);
        ranges
    }
}
