//! A graph being run in thought, node by node, forward and back.

use crate::placement::{Bytes, Step};

use super::model::{Model, NodeUse, ValueId};

/// Some nodes have run.
#[derive(Clone, Debug)]
pub struct Run<'m> {
    model: &'m Model,
    /// By value: mentions that are still to come.
    remaining: Vec<u32>,
    /// By value: how many of the nodes that give it memory have run.
    given: Vec<u32>,
    /// By buffer.
    live: Vec<Bytes>,
}

impl<'m> Run<'m> {
    /// No node has run.
    pub fn new(model: &'m Model) -> Self {
        Self {
            model,
            remaining: model.values.iter().map(|value| value.mentions).collect(),
            given: model.values.iter().map(|value| u32::from(value.from_start)).collect(),
            live: model.start(),
        }
    }

    /// Bytes that are alive now, by buffer.
    pub fn live(&self) -> &[Bytes] {
        &self.live
    }

    /// Bytes that are alive now, in all buffers.
    pub fn total(&self) -> Bytes {
        self.live.iter().sum()
    }

    /// How many values there are.
    pub fn values(&self) -> usize {
        self.model.values.len()
    }

    /// What `step` reads, and how often it names it.
    pub fn reads(&self, step: Step) -> &'m [(ValueId, u32)] {
        &self.node(step).reads
    }

    /// May one node be the only one that still mentions `value`?
    pub fn has_one_reader(&self, value: ValueId) -> bool {
        (1..=self.model.values[value as usize].most_by_one).contains(&self.remaining[value as usize])
    }

    /// Writes into `peaks` how many bytes are alive while `step` runs, by buffer, where that is more than is there.
    pub fn raise_peaks(&self, step: Step, peaks: &mut [Bytes]) {
        for (peak, &live) in peaks.iter_mut().zip(&self.live) {
            *peak = (*peak).max(live);
        }
        for (buffer, live) in self.grown_buffers(step) {
            peaks[buffer] = peaks[buffer].max(live);
        }
    }

    /// Can `step` run now with no more than `caps` bytes alive, by buffer?
    pub fn fits(&self, step: Step, caps: &[Bytes]) -> bool {
        self.grown_buffers(step).all(|(buffer, live)| live <= caps[buffer])
    }

    /// The buffers in which `step` needs new memory, and the bytes that are alive in them while it runs.
    fn grown_buffers(&self, step: Step) -> impl Iterator<Item = (usize, Bytes)> {
        self.new_values(step).map(move |value| {
            let buffer = self.model.values[value as usize].buffer;
            let here = self.new_values(step).map(|value| self.model.values[value as usize]);
            let new: Bytes = here.filter(|value| value.buffer == buffer).map(|value| value.size).sum();
            (buffer as usize, self.live[buffer as usize] + new)
        })
    }

    /// By how many bytes, in all buffers, more are alive after `step` than before it.
    pub fn growth(&self, step: Step) -> i64 {
        let node = self.node(step);
        let sizes = |value: ValueId| i64::try_from(self.model.values[value as usize].size).unwrap_or(i64::MAX / 4);
        let mut growth: i64 = self.given_first(node).map(sizes).sum();
        for &(value, times) in &node.reads {
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
        for &value in node.touches.iter().chain(&node.computes) {
            self.given[value as usize] += 1;
            if self.given[value as usize] == 1 {
                self.grow(value);
            }
        }
        for &(value, times) in &node.reads {
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
        for &(value, times) in &node.reads {
            if self.remaining[value as usize] == 0 && model.values[value as usize].ends {
                self.grow(value);
            }
            self.remaining[value as usize] += times;
        }
        for &value in node.touches.iter().chain(&node.computes) {
            self.given[value as usize] -= 1;
            if self.given[value as usize] == 0 {
                self.shrink(value);
            }
        }
    }

    fn node(&self, step: Step) -> &'m NodeUse {
        &self.model.nodes[step as usize]
    }

    /// What `node` gives memory to, itself included, though it may take over that of a source.
    fn given_first(&self, node: &'m NodeUse) -> impl Iterator<Item = ValueId> {
        node.touches.iter().chain(&node.computes).copied().filter(|&value| self.given[value as usize] == 0)
    }

    /// What gets memory of its own when `step` runs.
    fn new_values(&self, step: Step) -> impl Iterator<Item = ValueId> {
        let node = self.node(step);
        let in_place = self.is_in_place(node);
        self.given_first(node).filter(move |&value| !(in_place && node.computes == Some(value)))
    }

    fn is_in_place(&self, node: &NodeUse) -> bool {
        let has_memory = |value: ValueId| self.given[value as usize] > 0 || node.touches.contains(&value);
        node.donors.iter().any(|&value| self.remaining[value as usize] == 1 && has_memory(value))
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

/// The most bytes alive while some steps run in some order, by buffer. `run` must be before the first of them, and is
/// behind the last afterwards.
pub fn peaks_of(run: &mut Run<'_>, steps: &[Step]) -> Vec<Bytes> {
    let mut peaks = run.live().to_vec();
    for &step in steps {
        run.raise_peaks(step, &mut peaks);
        run.forward(step);
    }
    peaks
}
