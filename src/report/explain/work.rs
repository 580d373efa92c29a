//! How much work trying changes takes.

use std::cell::Cell;

/// The tensors and buffers of changed graphs that may still be looked at.
#[derive(Debug)]
pub struct Work {
    left: Cell<u64>,
    is_cut: Cell<bool>,
}

impl Work {
    /// As much as `limit`.
    pub fn new(limit: u64) -> Self {
        Self { left: Cell::new(limit), is_cut: Cell::new(false) }
    }

    /// Takes `cost` where as much is left; otherwise something is not tried.
    pub fn take(&self, cost: u64) -> bool {
        let is_left = self.is_left(cost);
        if is_left {
            self.left.set(self.left.get() - cost);
        }
        is_left
    }

    /// Is as much left? Otherwise something is not tried.
    pub fn is_left(&self, cost: u64) -> bool {
        let is_left = cost <= self.left.get();
        self.is_cut.set(self.is_cut.get() || !is_left);
        is_left
    }

    /// Was there something that was not tried?
    pub fn is_cut(&self) -> bool {
        self.is_cut.get()
    }
}
