//! The blocks alive at a moment, and the gaps between them.

use crate::placement::{BlockId, Bytes, Offset};

use super::direction::Moment;

/// Where a gap is in the list of gaps.
type GapIndex = u32;

const NO_GAP: GapIndex = GapIndex::MAX;

/// A block that is alive, or the wall at both ends of memory.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: Offset,
    end: Offset,
    /// The neighbours.
    below: BlockId,
    above: BlockId,
    death: Moment,
    /// The gap between this block and the one above.
    gap: GapIndex,
}

/// Free bytes, and what is known of the neighbours.
#[derive(Clone, Copy, Debug)]
struct Gap {
    start: Offset,
    end: Offset,
    below: BlockId,
    above: BlockId,
    below_death: Moment,
    above_death: Moment,
}

/// The end of a gap that a block goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Low,
    High,
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
    /// Nobody alive, of so many blocks, in `capacity` bytes.
    pub fn new(blocks: usize, capacity: Bytes) -> Self {
        let wall = BlockId::try_from(blocks).expect("fewer than 2^32 blocks");
        let nowhere = Place { start: 0, end: 0, below: wall, above: wall, death: Moment::MAX, gap: NO_GAP };
        let mut gaps = Self { places: vec![nowhere; blocks + 1], gaps: Vec::new(), wall };
        gaps.clear(capacity);
        gaps
    }

    /// Nobody is alive any more, and there are `capacity` bytes.
    pub fn clear(&mut self, capacity: Bytes) {
        let wall = self.wall;
        self.gaps.clear();
        self.places[wall as usize] =
            Place { start: capacity, end: 0, below: wall, above: wall, death: Moment::MAX, gap: NO_GAP };
        if capacity > 0 {
            self.open(wall, wall);
        }
    }

    /// Bytes within the walls.
    pub fn capacity(&self) -> Bytes {
        self.places[self.wall as usize].start
    }

    /// Lays a block on top of all others, where there is room for it.
    pub fn stack(&mut self, block: BlockId, size: Bytes, death: Moment) -> Offset {
        let top = self.places[self.wall as usize].below;
        let gap = self.places[top as usize].gap;
        self.put(block, size, death, (gap, End::Low))
    }

    /// Gives a newborn block the best spot there is. Where there is none the walls move apart as far as it needs, but
    /// not beyond `limit` bytes.
    pub fn place(&mut self, block: BlockId, size: Bytes, death: Moment, limit: Bytes) -> Option<Offset> {
        let spot = self.best(size, death).or_else(|| self.raise(size, limit))?;
        Some(self.put(block, size, death, spot))
    }

    /// A gap that is filled to the last byte comes first, then one beside a neighbour that outlives the block by the
    /// least, then one beside a neighbour that dies before it by the least; of equal ones the smallest.
    fn best(&self, size: Bytes, death: Moment) -> Option<(GapIndex, End)> {
        let (mut least, mut least_room) = (u64::MAX, Bytes::MAX);
        let mut best = None;
        for (index, gap) in (0..).zip(&self.gaps) {
            let room = gap.end - gap.start;
            if room < size {
                continue;
            }
            let (low, high) = (cost(gap.below_death, death), cost(gap.above_death, death));
            let (cost, end) = if low <= high { (low, End::Low) } else { (high, End::High) };
            if room == size {
                return Some((index, end));
            }
            if cost < least || cost == least && room < least_room {
                (least, least_room) = (cost, room);
                best = Some((index, end));
            }
        }
        best
    }

    /// Makes room on top.
    fn raise(&mut self, size: Bytes, limit: Bytes) -> Option<(GapIndex, End)> {
        let top = self.places[self.wall as usize].below;
        let Place { end, gap, .. } = self.places[top as usize];
        let capacity = end + size;
        if capacity > limit {
            return None;
        }
        self.places[self.wall as usize].start = capacity;
        match self.gaps.get_mut(gap as usize) {
            Some(gap) => gap.end = capacity,
            None => self.open(top, self.wall),
        }
        Some((self.places[top as usize].gap, End::Low))
    }

    fn put(&mut self, block: BlockId, size: Bytes, death: Moment, (index, side): (GapIndex, End)) -> Offset {
        let gap = &mut self.gaps[index as usize];
        let Gap { start: low, end: high, below, above, .. } = *gap;
        let start = if side == End::Low { low } else { high - size };
        let mut place = Place { start, end: start + size, below, above, death, gap: NO_GAP };
        if high - low == size {
            self.close(index);
        } else if side == End::Low {
            *gap = Gap { start: place.end, below: block, below_death: death, ..*gap };
            self.places[below as usize].gap = NO_GAP;
            place.gap = index;
        } else {
            *gap = Gap { end: start, above: block, above_death: death, ..*gap };
        }
        self.places[block as usize] = place;
        self.places[below as usize].above = block;
        self.places[above as usize].below = block;
        start
    }

    /// A block dies. One that never got a place, since it has no bytes, leaves none.
    pub fn free(&mut self, block: BlockId) {
        let Place { start, end, below, above, gap, .. } = self.places[block as usize];
        if start == end {
            return;
        }
        self.places[below as usize].above = above;
        self.places[above as usize].below = below;
        let Place { death: below_death, gap: gap_below, .. } = self.places[below as usize];
        let above_death = self.places[above as usize].death;
        if gap_below == NO_GAP && gap == NO_GAP {
            self.open(below, above);
        } else if gap_below == NO_GAP {
            let gap_above = &mut self.gaps[gap as usize];
            *gap_above = Gap { start, below, below_death, ..*gap_above };
            self.places[below as usize].gap = gap;
        } else {
            let end = if gap == NO_GAP { end } else { self.gaps[gap as usize].end };
            let joined = &mut self.gaps[gap_below as usize];
            *joined = Gap { end, above, above_death, ..*joined };
            if gap != NO_GAP {
                self.remove(gap);
            }
        }
    }

    /// A gap between two neighbours.
    fn open(&mut self, below: BlockId, above: BlockId) {
        let index = GapIndex::try_from(self.gaps.len()).expect("no more gaps than blocks");
        let Place { end: start, death: below_death, .. } = self.places[below as usize];
        let Place { start: end, death: above_death, .. } = self.places[above as usize];
        self.gaps.push(Gap { start, end, below, above, below_death, above_death });
        self.places[below as usize].gap = index;
    }

    /// A gap is filled.
    fn close(&mut self, index: GapIndex) {
        let below = self.gaps[index as usize].below;
        self.places[below as usize].gap = NO_GAP;
        self.remove(index);
    }

    fn remove(&mut self, index: GapIndex) {
        self.gaps.swap_remove(index as usize);
        if let Some(moved) = self.gaps.get(index as usize) {
            self.places[moved.below as usize].gap = index;
        }
    }
}

/// Of a neighbour that dies before the block; beyond all differences between moments.
const DIES_BEFORE: u64 = 1 << 32;

/// Of a spot beside a neighbour.
fn cost(neighbour_death: Moment, death: Moment) -> u64 {
    let difference = u64::from(neighbour_death.abs_diff(death));
    if neighbour_death >= death { difference } else { DIES_BEFORE + difference }
}

#[cfg(test)]
impl Gaps {
    /// Where each gap starts and ends, from the lowest to the highest.
    pub(super) fn ranges(&self) -> Vec<std::ops::Range<Offset>> {
        let mut ranges: Vec<_> = self.gaps.iter().map(|gap| gap.start..gap.end).collect();
        ranges.sort_by_key(|range| range.start);
        ranges
    }
}
