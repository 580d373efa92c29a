//! The live bytes while nodes run one after the other, forward and back.

use crate::placement::{Bytes, Step};

use super::model::{Model, ValueId};

/// The state after a set of nodes has run.
#[derive(Clone, Debug)]
pub struct Run<'m> {
    /// What runs.
    pub model: &'m Model,
    /// By memory of a value: uses that are still to come.
    remaining: Vec<u32>,
    /// By memory of a value: how many of the nodes that allocate it have run.
    allocations: Vec<u32>,
    /// Live bytes, by buffer.
    live: Vec<Bytes>,
}

impl<'m> Run<'m> {
    /// Creates the state in which no node has run. Each value has one memory.
    pub fn new(model: &'m Model) -> Self {
        let mut run = Self { model, remaining: Vec::new(), allocations: Vec::new(), live: Vec::new() };
        run.restart(model.values.len(), model.values.iter().map(|value| value.uses).enumerate());
        run
    }

    /// Creates the state before the first of `steps`, in which only `values` need memory: each has the memory at its
    /// position, and all others share the one after these.
    fn of_part(model: &'m Model, values: &[ValueId], steps: &[Step]) -> Self {
        let mut remaining = vec![0; values.len() + 1];
        for &(value, times) in steps.iter().flat_map(|&step| model.uses(step)) {
            remaining[place_in(values, value)] += times;
        }
        let mut allocations = vec![0; values.len() + 1];
        // It has always been there, and is never free.
        (remaining[values.len()], allocations[values.len()]) = (u32::MAX, 1);
        Self { model, remaining, allocations, live: vec![0; model.buffers] }
    }

    /// Returns to the state in which no node has run. The first of `memories` are those of the values, with those that
    /// are there from the start; others are for values that are computed again. `uses` has how often each is used.
    pub fn restart(&mut self, memories: usize, uses: impl Iterator<Item = (usize, u32)>) {
        let Self { model, remaining, allocations, live } = self;
        remaining.clear();
        remaining.resize(memories, 0);
        uses.for_each(|(memory, times)| remaining[memory] += times);
        allocations.clear();
        allocations.extend(model.values.iter().map(|value| u32::from(value.from_start)));
        allocations.resize(memories, 0);
        live.clear();
        live.resize(model.buffers, 0);
        for value in model.values.iter().filter(|value| value.from_start) {
            live[value.buffer as usize] += value.size;
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

    /// Returns `true` if all remaining uses of `value` may be those of one node.
    pub fn may_have_one_user(&self, value: ValueId) -> bool {
        (1..=self.model.values[value as usize].most_by_one).contains(&self.remaining[value as usize])
    }

    /// Returns `true` if `step` can run now with at most `caps` live bytes, by buffer.
    pub fn fits(&self, step: Step, caps: &[Bytes]) -> bool {
        self.new_values(step).all(|value| {
            let buffer = self.model.values[value as usize].buffer;
            let here = self.new_values(step).map(|value| self.model.values[value as usize]);
            let new: Bytes = here.filter(|value| value.buffer == buffer).map(|value| value.size).sum();
            self.live[buffer as usize] + new <= caps[buffer as usize]
        })
    }

    /// Returns the change of live bytes of all buffers by running `step`.
    pub fn growth(&self, step: Step) -> i64 {
        let sizes = |value: ValueId| i64::try_from(self.model.values[value as usize].size).unwrap_or(i64::MAX / 4);
        let mut growth: i64 = self.first_allocated(step).map(sizes).sum();
        for &(value, times) in self.model.uses(step) {
            if self.model.values[value as usize].ends && self.remaining[value as usize] == times {
                growth -= sizes(value);
            }
        }
        growth
    }

    /// Runs a node.
    pub fn forward(&mut self, step: Step) {
        self.forward_in(step, |value| value as usize, |_| {});
    }

    /// Runs a node that finds each value in the memory that `memory` returns. Calls `during` with the live bytes while it
    /// runs, by buffer: a result in place of a source takes no more than that.
    #[inline(always)]
    pub fn forward_in(&mut self, step: Step, memory: impl Fn(ValueId) -> usize, during: impl FnOnce(&[Bytes])) {
        let model = self.model;
        for &value in model.undefined(step) {
            if self.allocate(memory(value)) {
                self.grow(value);
            }
        }
        let new = model.computes(step).filter(|&value| self.allocate(memory(value)));
        let is_source = |at: usize| self.remaining[at] == 1 && self.allocations[at] > 0;
        let is_in_place = new.is_some() && model.in_place_sources(step).iter().any(|&value| is_source(memory(value)));
        if let (Some(value), false) = (new, is_in_place) {
            self.grow(value);
        }
        during(&self.live);
        if let (Some(value), true) = (new, is_in_place) {
            self.grow(value);
        }
        for &(value, times) in model.uses(step) {
            let remaining = &mut self.remaining[memory(value)];
            *remaining -= times;
            if *remaining == 0 && model.values[value as usize].ends {
                self.shrink(value);
            }
        }
    }

    /// Undoes [`Self::forward`]; no node that needs the result of this one may have run.
    pub fn backward(&mut self, step: Step) {
        let model = self.model;
        for &(value, times) in model.uses(step) {
            if self.remaining[value as usize] == 0 && model.values[value as usize].ends {
                self.grow(value);
            }
            self.remaining[value as usize] += times;
        }
        for &value in model.undefined(step).iter().chain(&model.computes(step)) {
            self.allocations[value as usize] -= 1;
            if self.allocations[value as usize] == 0 {
                self.shrink(value);
            }
        }
    }

    /// Returns the values that `step` is the first to allocate, its own included though it may be computed in place.
    fn first_allocated(&self, step: Step) -> impl Iterator<Item = ValueId> {
        let values = self.model.undefined(step).iter().copied().chain(self.model.computes(step));
        values.filter(|&value| self.allocations[value as usize] == 0)
    }

    /// Returns the values that get new memory when `step` runs.
    fn new_values(&self, step: Step) -> impl Iterator<Item = ValueId> {
        let (undefined, own) = (self.model.undefined(step), self.model.computes(step));
        let has_memory = |value: ValueId| self.allocations[value as usize] > 0 || undefined.contains(&value);
        let is_source = |&value: &ValueId| self.remaining[value as usize] == 1 && has_memory(value);
        let is_in_place = self.model.in_place_sources(step).iter().any(is_source);
        self.first_allocated(step).filter(move |&value| !(is_in_place && own == Some(value)))
    }

    /// Counts that a node allocates a memory, and returns whether it is the first.
    fn allocate(&mut self, memory: usize) -> bool {
        self.allocations[memory] += 1;
        self.allocations[memory] == 1
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
        run.forward_in(step, |value| value as usize, |live| raise(&mut peaks, live));
    }
    peaks
}

/// Returns the peaks, by buffer, while nothing but `steps` run, and no values but `values`, of which none is there from the
/// start, need memory.
pub fn peaks_of_part(model: &Model, values: &[ValueId], steps: &[Step]) -> Vec<Bytes> {
    let mut run = Run::of_part(model, values, steps);
    let mut peaks = run.live.clone();
    for &step in steps {
        run.forward_in(step, |value| place_in(values, value), |live| raise(&mut peaks, live));
    }
    peaks
}

/// Returns the position of a value in a list, or the end.
fn place_in(values: &[ValueId], value: ValueId) -> usize {
    values.iter().position(|&other| other == value).unwrap_or(values.len())
}

/// Raises peaks, by buffer, to the live bytes.
pub fn raise(peaks: &mut [Bytes], live: &[Bytes]) {
    peaks.iter_mut().zip(live).for_each(|(peak, &live)| *peak = live.max(*peak));
}
