//! Which states are known to lead nowhere.

use super::board::Board;
use super::corners::Range;
use super::state::DONE;

/// The name of a state of a part: what waits in it and how much room each column has.
pub type Fingerprint = u128;

/// So many states are remembered at most: 64 MiB.
const MOST: usize = 1 << 22;

/// A set of fingerprints. When it is full, new ones take the places of old ones.
#[derive(Debug, Default)]
pub struct Failures {
    slots: Vec<Fingerprint>,
    used: usize,
}

/// States with fingerprints that begin alike stand beside each other.
const BUCKET: usize = 4;

impl Failures {
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
        let start = ((state >> 20) as usize & (self.slots.len() - 1)) / BUCKET * BUCKET;
        start..start + BUCKET
    }

    fn grow(&mut self) {
        let size = (4 * self.slots.len()).max(256);
        let old = std::mem::replace(&mut self.slots, vec![0; size]);
        self.used = 0;
        old.into_iter().filter(|&state| state != 0).for_each(|state| self.insert(state));
    }
}

/// Room is measured from the ceiling: states that differ by what lies below or above are the same.
pub fn fingerprint(board: &Board<'_>, part: Range) -> Fingerprint {
    let (mut one, mut two) = (0u128, 0u128);
    let mut key = u64::from(part.start).wrapping_mul(KEY);
    for column in part.start..part.end {
        let sky = board.state.sky(column);
        let room = if sky == DONE { DONE } else { board.state.ceiling(column) - sky };
        let waiting = board.state.waiting(column);
        key = key.wrapping_add(KEY);
        let (a, b) = (room ^ key, waiting ^ key.rotate_left(32));
        one = one.wrapping_add(u128::from(a) * u128::from(b));
        two = two.wrapping_add(u128::from(a ^ key.rotate_left(13)) * u128::from(b ^ key.rotate_left(47)));
    }
    let (one, two) = (folded(one) ^ u64::from(part.start), folded(two) ^ u64::from(part.end));
    u128::from(one) << 64 | u128::from(two.wrapping_mul(KEY)) | 1
}

const KEY: u64 = 0x9E37_79B9_7F4A_7C15;

fn folded(product: u128) -> u64 {
    (product >> 64) as u64 ^ product as u64
}
