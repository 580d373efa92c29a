//! The peak of a memory profile to which live ranges are added.

use std::ops::Range;

use crate::placement::Bytes;

/// Live bytes by step, as a tree over the steps: adding a live range takes logarithmic time, the peak none.
#[derive(Debug)]
pub struct GrowingProfile {
    /// The number of steps: a power of two.
    width: usize,
    /// By tree node: bytes that were added to all steps below it.
    added: Vec<Bytes>,
    /// By tree node: the most bytes of a step below it, as far as they were added there or below.
    most: Vec<Bytes>,
}

impl GrowingProfile {
    /// Creates a profile of `steps` steps without live bytes.
    pub fn new(steps: usize) -> Self {
        let width = steps.max(1).next_power_of_two();
        Self { width, added: vec![0; 2 * width], most: vec![0; 2 * width] }
    }

    /// Removes all live ranges.
    pub fn clear(&mut self) {
        self.added.fill(0);
        self.most.fill(0);
    }

    /// Adds `size` bytes to the steps in `range`.
    pub fn add(&mut self, range: Range<usize>, size: Bytes) {
        if !range.is_empty() {
            self.add_below(1, 0..self.width, &range, size);
        }
    }

    /// Returns the most bytes of a step.
    pub fn peak(&self) -> Bytes {
        self.most[1]
    }

    /// `steps` are those below the tree node `at`.
    fn add_below(&mut self, at: usize, steps: Range<usize>, range: &Range<usize>, size: Bytes) {
        if range.start <= steps.start && steps.end <= range.end {
            self.added[at] = self.added[at].saturating_add(size);
            self.most[at] = self.most[at].saturating_add(size);
            return;
        }
        let middle = steps.start.midpoint(steps.end);
        if range.start < middle {
            self.add_below(2 * at, steps.start..middle, range, size);
        }
        if range.end > middle {
            self.add_below(2 * at + 1, middle..steps.end, range, size);
        }
        self.most[at] = self.most[2 * at].max(self.most[2 * at + 1]).saturating_add(self.added[at]);
    }
}
