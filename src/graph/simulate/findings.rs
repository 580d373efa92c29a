//! The list of findings of one simulation.

use std::collections::HashSet;

use crate::graph::{Region, TensorId};

use super::corruption::{Corruption, Finding};

/// The findings so far, each pair of tensors once.
pub struct Findings {
    pub list: Vec<Finding>,
    /// The pairs of tensors reported so far; the second may be missing.
    pairs: HashSet<(TensorId, Option<TensorId>)>,
    limit: usize,
}

impl Findings {
    pub fn new(limit: usize) -> Self {
        Self { list: Vec::new(), pairs: HashSet::new(), limit }
    }

    pub fn is_full(&self) -> bool {
        self.list.len() >= self.limit
    }

    /// Adds a finding about `tensor` and perhaps another, unless both were reported together.
    pub fn add(&mut self, corruption: Corruption, bytes: Option<Region>, tensor: TensorId, other: Option<TensorId>) {
        let pair = other.map_or((tensor, None), |other| (tensor.min(other), Some(tensor.max(other))));
        if !self.is_full() && self.pairs.insert(pair) {
            self.list.push(Finding { corruption, bytes });
        }
    }
}
