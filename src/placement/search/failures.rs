//! Which states are known to lead nowhere.

use super::board::Board;
use super::columns::Columns;
use super::corners::Range;
use super::state::{DONE, next_random};

/// The name of a state of a part: what waits in it and how much room each column has.
pub type Fingerprint = u128;

/// So many states are remembered at most: 64 MiB.
const MOST: usize = 1 << 22;

/// A set of fingerprints. When it is full, new ones take the places of old ones.
#[derive(Debug)]
pub struct Failures {
    slots: Vec<Fingerprint>,
    used: usize,
    /// By column: what makes fingerprints of different states differ, but for one pair of states in 2^128.
    keys: Vec<[u64; 4]>,
}

/// States with fingerprints that begin alike stand beside each other.
const BUCKET: usize = 4;

impl Failures {
    pub fn new(columns: &Columns) -> Self {
        let mut seed = 0;
        let keys = (0..=columns.count()).map(|_| [(); 4].map(|()| next_random(&mut seed))).collect();
        Self { slots: Vec::new(), used: 0, keys }
    }

    /// Room is measured from the ceiling: states that differ by what lies below or above are the same.
    pub fn fingerprint(&self, board: &Board<'_>, part: Range) -> Fingerprint {
        let (start, end) = (&self.keys[part.start as usize], &self.keys[part.end as usize]);
        let mut sums = [start[0] ^ end[1], start[2] ^ end[3]].map(u128::from);
        for column in part.start..part.end {
            let sky = board.state.sky(column);
            let room = if sky == DONE { DONE } else { board.state.ceiling(column) - sky };
            let waiting = board.state.waiting(column);
            let [a, b, c, d] = self.keys[column as usize];
            sums[0] = sums[0].wrapping_add(product(room.wrapping_add(a), waiting.wrapping_add(b)));
            sums[1] = sums[1].wrapping_add(product(room.wrapping_add(c), waiting.wrapping_add(d)));
        }
        let [one, two] = sums;
        // 0 marks a free slot.
        (one ^ two.rotate_left(64)).max(1)
    }

    pub fn contains(&self, state: Fingerprint) -> bool {
        !self.slots.is_empty() && self.slots[self.bucket(state)].contains(&state)
    }

    pub fn insert(&mut self, state: Fingerprint) {
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

    fn bucket(&self, state: Fingerprint) -> std::ops::Range<usize> {
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

#[allow(clippy::cast_possible_truncation, reason = "any bits do")]
fn folded(state: Fingerprint) -> usize {
    (state ^ state >> 64) as usize
}
