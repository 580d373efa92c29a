//! The tile of each source that a tile of a result needs.

use std::ops::Deref;

use super::{MOST_SOURCES, Need};

/// The tile of each source that a tile of a result needs, by slot. The search computes them for many nodes, so they are
/// not on the heap.
#[derive(Clone, Debug)]
pub struct Needs {
    slots: [Need; MOST_SOURCES],
    len: usize,
}

impl FromIterator<Need> for Needs {
    /// Collects the needed tiles of at most [`MOST_SOURCES`] sources.
    fn from_iter<I: IntoIterator<Item = Need>>(needs: I) -> Self {
        let mut slots = [Need::Whole; MOST_SOURCES];
        let mut len = 0;
        for need in needs {
            slots[len] = need;
            len += 1;
        }
        Self { slots, len }
    }
}

impl<const LEN: usize> From<[Need; LEN]> for Needs {
    fn from(needs: [Need; LEN]) -> Self {
        needs.into_iter().collect()
    }
}

impl Deref for Needs {
    type Target = [Need];

    fn deref(&self) -> &[Need] {
        &self.slots[..self.len]
    }
}

impl PartialEq for Needs {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Needs {}
