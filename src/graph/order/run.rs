//! The simulation of a model, node by node, forward and back.

use crate::placement::{Bytes, Step};

use super::model::{Model, NodeValues, ValueId};

/// The state after a set of nodes has run.
#[derive(Clone, Debug)]
pub struct Run<'m> {
    model: &'m Model,
    /// By value: uses that are still to come.
    remaining: Vec<u32>,
    /// By value: how many of the nodes that allocate it have run.
    allocations: Vec<u32>,
    /// Live bytes, by buffer.
    live: Vec<Bytes>,
}

impl<'m> Run<'m> {
    /// Creates the state in which no node has run.
    pub fn new(model: &'m Model) -> Self {
        Self {
            model,
            remaining: model.values.iter().map(|value| value.uses).collect(),
            allocations: model.values.iter().map(|value| u32::from(value.from_start)).collect(),
            live: model.start(),
        }
    }

    /// Returns the live bytes, by buffer.
    pub fn live(&self) -> &[Bytes] {
        &self.live
    }

    /// Returns the live bytes of all buffers.
    pub fn total(&self) -> Bytes {
        self.live.iter().sum()
    }

    /// Returns the number of values.
    pub fn values(&self) -> usize {
        self.model.values.len()
    }

    /// Returns the values that `step` uses, and how often.
    pub fn uses(&self, step: Step) -> &'m [(ValueId, u32)] {
        &self.node(step).uses
    }

    /// Returns `true` if all remaining uses of `value` may be those of one node.
    pub fn may_have_one_user(&self, value: ValueId) -> bool {
        (1..=self.model.values[value as usize].most_by_one).contains(&self.remaining[value as usize])
    }

    /// Raises `peaks`, by buffer, to the live bytes while `step` runs.
    pub fn raise_peaks(&self, step: Step, peaks: &mut [Bytes]) {
        for (peak, &live) in peaks.iter_mut().zip(&self.live) {
            *peak = (*peak).max(live);
        }
        for (buffer, live) in self.grown_buffers(step) {
            peaks[buffer] = peaks[buffer].max(live);
        }
    }

    /// Returns `true` if `step` can run now with at most `caps` live bytes, by buffer.
    pub fn fits(&self, step: Step, caps: &[Bytes]) -> bool {
        self.grown_buffers(step).all(|(buffer, live)| live <= caps[buffer])
    }

    /// Returns the buffers in which `step` needs new memory, and their live bytes while it runs.
    fn grown_buffers(&self, step: Step) -> impl Iterator<Item = (usize, Bytes)> {
        self.new_values(step).map(move |value| {
            let buffer = self.model.values[value as usize].buffer;
            let here = self.new_values(step).map(|value| self.model.values[value as usize]);
            let new: Bytes = here.filter(|value| value.buffer == buffer).map(|value| value.size).sum();
            (buffer as usize, self.live[buffer as usize] + new)
        })
    }

    /// Returns the change of live bytes of all buffers by running `step`.
    pub fn growth(&self, step: Step) -> i64 {
        let node = self.node(step);
        let sizes = |value: ValueId| i64::try_from(self.model.values[value as usize].size).unwrap_or(i64::MAX / 4);
        let mut growth: i64 = self.first_allocated(node).map(sizes).sum();
        for &(value, times) in &node.uses {
            if self.model.values[value as usize].ends && self.remaining[value as usize] == times {
                growth -= sizes(value);
            }
        }
        growth
    }

    /// Runs a node.
    pub fn forward(&mut self, step: Step) {
        let model = self.model;
        let node = &model.nodes[step as usize];
        for &value in node.undefined.iter().chain(&node.computes) {
            self.allocations[value as usize] += 1;
            if self.allocations[value as usize] == 1 {
                self.grow(value);
            }
        }
        for &(value, times) in &node.uses {
            self.remaining[value as usize] -= times;
            if self.remaining[value as usize] == 0 && model.values[value as usize].ends {
                self.shrink(value);
            }
        }
    }

    /// Undoes [`Self::forward`]; no node that needs the result of this one may have run.
    pub fn backward(&mut self, step: Step) {
        let model = self.model;
        let node = &model.nodes[step as usize];
        for &(value, times) in &node.uses {
            if self.remaining[value as usize] == 0 && model.values[value as usize].ends {
                self.grow(value);
            }
            self.remaining[value as usize] += times;
        }
        for &value in node.undefined.iter().chain(&node.computes) {
            self.allocations[value as usize] -= 1;
            if self.allocations[value as usize] == 0 {
                self.shrink(value);
            }
        }
    }

    fn node(&self, step: Step) -> &'m NodeValues {
        &self.model.nodes[step as usize]
    }

    /// Returns the values that `node` is the first to allocate, its own included though it may be computed in place.
    fn first_allocated(&self, node: &'m NodeValues) -> impl Iterator<Item = ValueId> {
        node.undefined.iter().chain(&node.computes).copied().filter(|&value| self.allocations[value as usize] == 0)
    }

    /// Returns the values that get new memory when `step` runs.
    fn new_values(&self, step: Step) -> impl Iterator<Item = ValueId> {
        let node = self.node(step);
        let in_place = self.is_in_place(node);
        self.first_allocated(node).filter(move |&value| !(in_place && node.computes == Some(value)))
    }

    fn is_in_place(&self, node: &NodeValues) -> bool {
        let has_memory = |value: ValueId| self.allocations[value as usize] > 0 || node.undefined.contains(&value);
        node.in_place_sources.iter().any(|&value| self.remaining[value as usize] == 1 && has_memory(value))
    }

    fn grow(&mut self, value: ValueId) {
        let value = self.model.values[value as usize];
        self.live[value.buffer as usize] += value.size;
    }

    fn shrink(&mut self, value: ValueId) {
        let value = self.model.values[value as usize];
        self.live[value.buffer as usize] -= value.size;
    }
}

/// Runs `steps` in their order and returns their peaks, by buffer. `run` must be before the first of them.
pub fn peaks_of(run: &mut Run<'_>, steps: &[Step]) -> Vec<Bytes> {
    let mut peaks = run.live().to_vec();
    for &step in steps {
        run.raise_peaks(step, &mut peaks);
        run.forward(step);
    }
    peaks
}
