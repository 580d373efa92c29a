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
    /// The counted views that no step mentions.
    pub unread_views: Vec<TensorId>,
}

/// The id of a tensor, plus 1.
type Link = Option<NonZero<TensorId>>;

impl LastReads {
    /// Reads the states when all mentions are known.
    pub fn new(states: &[State], steps: Step) -> Self {
        let mut first: Vec<Link> = vec![None; steps as usize];
        let mut unread_views = Vec::new();
        let mut link = |id: TensorId, state: &State| {
            if !state.marks.has(Marks::WAITS | Marks::ENDS | Marks::COUNTED) {
                return None;
            }
            let Some(step) = state.read_until.checked_sub(1) else {
                unread_views.extend(state.marks.has(Marks::COUNTED).then_some(id));
                return None;
            };
            std::mem::replace(&mut first[step as usize], NonZero::new(id + 1))
        };
        let next = (0..).zip(states).map(|(id, state)| link(id, state)).collect();
        Self { first, next, unread_views }
    }

    /// Are there none?
    pub fn is_empty(&self, step: Step) -> bool {
        self.first[step as usize].is_none()
    }

    /// Those of one step.
    pub fn of(&self, step: Step) -> impl Iterator<Item = TensorId> {
        successors(self.first[step as usize], |id| self.next[id.get() as usize - 1]).map(|id| id.get() - 1)
    }
}
