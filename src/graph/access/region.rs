//! Bytes of one address space.

use crate::placement::{Bytes, Offset};

/// A range of bytes in one address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// A number for the address space: a chunk of a buffer, or memory that a tensor represents.
    pub space: u32,
    /// The first byte, from the start of the space.
    pub start: Offset,
    /// The byte after the last.
    pub end: Offset,
}

impl Region {
    /// Returns the number of bytes.
    pub fn size(self) -> Bytes {
        self.end.saturating_sub(self.start)
    }

    /// Returns `true` if both have a byte in common.
    pub fn shares_bytes(self, other: Self) -> bool {
        self.common(other).size() > 0
    }

    /// Returns `true` if each starts before the other ends. Unlike in [`Region::shares_bytes`], an empty region
    /// overlaps the one that it lies inside of.
    pub fn overlaps(self, other: Self) -> bool {
        self.space == other.space && self.start < other.end && other.start < self.end
    }

    /// Returns the bytes that are in both; none if the spaces differ.
    #[must_use]
    pub fn common(self, other: Self) -> Self {
        let start = self.start.max(other.start);
        let end = if self.space == other.space { self.end.min(other.end) } else { start };
        Self { space: self.space, start, end: end.max(start) }
    }
}
