//! Which tensors a step is the last to read.

use std::iter::successors;
use std::num::NonZero;

use crate::graph::TensorId;
use crate::placement::Step;

use super::state::{Marks, State};

/// By step, the tensors that it is the last to mention, of those whose memory may end with that: a list for each step,
/// of which the tensors are the links.
pub struct LastReads {
    /// By step, the first of its list.
    first: Vec<Link>,
    /// By tensor, the next in its list.
    next: Vec<Link>,
}

/// The id of a tensor, plus 1.
type Link = Option<NonZero<TensorId>>;

impl LastReads {
    /// None yet, of so many tensors.
    pub fn new(tensors: usize, steps: Step) -> Self {
        Self { first: vec![None; steps as usize], next: vec![None; tensors] }
    }

    /// Reads the states when all mentions are known.
    pub fn of(states: &[State], steps: Step) -> Self {
        let mut reads = Self::new(states.len(), steps);
        (0..).zip(states).for_each(|(id, state)| reads.add(id, state));
        reads
    }

    /// Adds a tensor of which all mentions are known.
    #[inline]
    pub fn add(&mut self, id: TensorId, state: &State) {
        if state.read_until > 0 && state.marks.has(Marks::WAITS | Marks::ENDS | Marks::COUNTED) {
            let first = &mut self.first[state.read_until as usize - 1];
            self.next[id as usize] = std::mem::replace(first, NonZero::new(id + 1));
        }
    }

    /// Are there none?
    pub fn is_empty(&self, step: Step) -> bool {
        self.first[step as usize].is_none()
    }

    /// Those of one step.
    pub fn at(&self, step: Step) -> impl Iterator<Item = TensorId> {
        successors(self.first[step as usize], |id| self.next[id.get() as usize - 1]).map(|id| id.get() - 1)
    }
}
