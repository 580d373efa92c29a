//! Learned no-goods: states that are known to have no solution.

use super::columns::Columns;
use super::corners::ColumnRange;
use super::partial_placement::PartialPlacement;
use super::state::{DONE, Of, next_random};

/// A hash of a state of a part: its unplaced bars, and the free height of each column.
pub type StateHash = u128;

/// The most states that are stored: 64 MiB.
const MOST: usize = 1 << 22;

/// A set of hashes. When it is full, new ones replace old ones.
#[derive(Debug)]
pub struct NoGoods {
    slots: Vec<StateHash>,
    used: usize,
    /// By column: random numbers, with which two different states have equal hashes once in 2^128.
    keys: Vec<[u64; 4]>,
}

/// Slots in which a hash may be.
const BUCKET: usize = 4;

impl NoGoods {
    pub fn new(columns: &Columns) -> Self {
        let mut seed = 0;
        let keys = (0..=columns.count()).map(|_| [(); 4].map(|()| next_random(&mut seed))).collect();
        Self { slots: Vec::new(), used: 0, keys }
    }

    /// Returns the hash of a part. It depends on the height between skyline and ceiling, not on its surroundings.
    pub fn hash(&self, partial: &PartialPlacement<'_>, part: ColumnRange) -> StateHash {
        let (start, end) = (&self.keys[part.start as usize], &self.keys[part.end as usize]);
        let mut sums = [start[0] ^ end[1], start[2] ^ end[3]].map(u128::from);
        for column in part.start..part.end {
            let skyline = partial.state.get(Of::Skyline, column);
            let height = if skyline == DONE { DONE } else { partial.state.get(Of::Ceiling, column) - skyline };
            let unplaced = partial.state.get(Of::Unplaced, column);
            let [a, b, c, d] = self.keys[column as usize];
            sums[0] = sums[0].wrapping_add(product(height.wrapping_add(a), unplaced.wrapping_add(b)));
            sums[1] = sums[1].wrapping_add(product(height.wrapping_add(c), unplaced.wrapping_add(d)));
        }
        let [one, two] = sums;
        // 0 marks a free slot.
        (one ^ two.rotate_left(64)).max(1)
    }

    pub fn contains(&self, state: StateHash) -> bool {
        !self.slots.is_empty() && self.slots[self.bucket(state)].contains(&state)
    }

    pub fn insert(&mut self, state: StateHash) {
        if 2 * self.used >= self.slots.len() && self.slots.len() < MOST {
            self.grow();
        }
        let bucket = self.bucket(state);
        let slots = &mut self.slots[bucket];
        if let Some(free) = slots.iter_mut().find(|slot| **slot == 0) {
            *free = state;
            self.used += 1;
        } else {
            slots.rotate_right(1);
            slots[0] = state;
        }
    }

    fn bucket(&self, state: StateHash) -> std::ops::Range<usize> {
        let start = folded(state) & (self.slots.len() - BUCKET);
        start..start + BUCKET
    }

    fn grow(&mut self) {
        let size = (4 * self.slots.len()).max(256);
        let old = std::mem::replace(&mut self.slots, vec![0; size]);
        self.used = 0;
        old.into_iter().filter(|&state| state != 0).for_each(|state| self.insert(state));
    }
}

fn product(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

#[allow(clippy::cast_possible_truncation, reason = "any bits will do")]
fn folded(state: StateHash) -> usize {
    (state ^ state >> 64) as usize
}
