//! The work limit for trying changes.

use std::cell::Cell;

/// The number of tensors and buffers of changed graphs that may still be planned.
#[derive(Debug)]
pub struct Work {
    left: Cell<u64>,
    is_exhausted: Cell<bool>,
}

impl Work {
    pub fn new(limit: u64) -> Self {
        Self { left: Cell::new(limit), is_exhausted: Cell::new(false) }
    }

    /// Takes `cost` if as much is left. Otherwise returns `false`: a change stays untried.
    pub fn take(&self, cost: u64) -> bool {
        let is_left = self.is_left(cost);
        if is_left {
            self.left.set(self.left.get() - cost);
        }
        is_left
    }

    /// Returns whether `cost` is left. Otherwise a change stays untried.
    pub fn is_left(&self, cost: u64) -> bool {
        let is_left = cost <= self.left.get();
        self.is_exhausted.set(self.is_exhausted.get() || !is_left);
        is_left
    }

    /// Returns whether some change stayed untried.
    pub fn is_exhausted(&self) -> bool {
        self.is_exhausted.get()
    }
}
