//! The live bytes of an order of execution in which nodes run again.

use crate::graph::order::{Model, ValueId};
use crate::placement::{Bytes, Step};

use super::schedule::Item;

/// Simulates orders of execution. Keeps its memory between calls.
#[derive(Debug)]
pub struct Estimator<'a> {
    model: &'a Model,
    boundary: Step,
    /// By value, then by copy of a value: uses that are still to come.
    remaining: Vec<u32>,
    /// By value, then by copy of a value: bytes of its block; 0 while it has none.
    blocks: Vec<Bytes>,
    /// By value: whether it is computed again.
    is_again: Vec<bool>,
    /// By buffer.
    live: Vec<Bytes>,
    peaks: Vec<Bytes>,
    goal: Bytes,
    excess: u128,
    /// How many nodes so far exceeded the goal; and, by value, then by copy, how many had when it was computed.
    exceeding: u32,
    exceeding_at_start: Vec<u32>,
    /// By value: whether it or its copy was live when a node exceeded the goal.
    is_live_above_goal: Vec<bool>,
}

impl<'a> Estimator<'a> {
    /// Creates an estimator for a graph whose backward pass begins at step `boundary`.
    pub fn new(model: &'a Model, boundary: Step) -> Self {
        let count = model.values.len();
        Self {
            model,
            boundary,
            remaining: vec![0; 2 * count],
            blocks: vec![0; 2 * count],
            is_again: vec![false; count],
            live: Vec::new(),
            peaks: Vec::new(),
            goal: 0,
            excess: 0,
            exceeding: 0,
            exceeding_at_start: vec![0; 2 * count],
            is_live_above_goal: vec![false; count],
        }
    }

    /// Sets the live bytes from which on bytes count for [`Estimator::excess`].
    pub fn set_goal(&mut self, goal: Bytes) {
        self.goal = goal;
    }

    /// Returns by how many bytes the goal was exceeded, summed over all nodes of the order simulated last.
    pub fn excess(&self) -> u128 {
        self.excess
    }

    /// Returns, by value, whether it or its copy was live when a node of the order simulated last exceeded the goal.
    pub fn live_above_goal(&self) -> &[bool] {
        &self.is_live_above_goal
    }

    /// Returns the most live bytes at a time, summed over all buffers. The lower bound of the graph with this order may
    /// differ: live ranges also depend on which of several in-place sources a node takes, on CONCAT, on unread inputs and
    /// on what fused nodes read.
    pub fn peak(&mut self, items: &[Item]) -> Bytes {
        self.count_uses(items);
        let start = self.model.start();
        self.live.clone_from(&start);
        self.peaks.clone_from(&start);
        for (value, block) in self.model.values.iter().zip(&mut self.blocks).filter(|(value, _)| value.from_start) {
            *block = value.size;
        }
        (self.excess, self.exceeding) = (0, 0);
        self.exceeding_at_start.fill(0);
        self.is_live_above_goal.fill(false);
        for &item in items {
            self.run(item);
        }
        self.peaks.iter().sum()
    }

    fn count_uses(&mut self, items: &[Item]) {
        self.is_again.fill(false);
        self.blocks.fill(0);
        self.remaining.fill(0);
        for item in items.iter().filter(|item| item.again) {
            if let Some(value) = self.model.nodes[item.step as usize].computes {
                self.is_again[value as usize] = true;
            }
        }
        for &item in items {
            for &(value, times) in &self.model.nodes[item.step as usize].uses {
                let used = self.used(item, value);
                self.remaining[used] += times;
            }
        }
    }

    /// Returns which copy of a value a node uses.
    fn used(&self, item: Item, value: ValueId) -> usize {
        let is_late = item.again || item.step >= self.boundary;
        if is_late && self.is_again[value as usize] { self.copy(value) } else { value as usize }
    }

    fn copy(&self, value: ValueId) -> usize {
        self.model.values.len() + value as usize
    }

    fn run(&mut self, item: Item) {
        let model = self.model;
        let node = &model.nodes[item.step as usize];
        node.undefined.iter().for_each(|&value| self.allocate(value as usize, value));
        let in_place = node.in_place_sources.iter().map(|&value| self.used(item, value));
        let mut in_place = in_place.filter(|&used| self.remaining[used] == 1 && self.blocks[used] > 0);
        let source = in_place.next();
        if let Some(value) = node.computes {
            let result = if item.again { self.copy(value) } else { value as usize };
            self.exceeding_at_start[result] = self.exceeding;
            match source {
                Some(source) if self.blocks[result] == 0 => {
                    self.blocks[result] = std::mem::take(&mut self.blocks[source]);
                }
                _ => self.allocate(result, value),
            }
        }
        let live: Bytes = self.live.iter().sum();
        self.excess = self.excess.saturating_add(u128::from(live.saturating_sub(self.goal)).pow(2));
        self.exceeding += u32::from(live > self.goal);
        for &(value, times) in &node.uses {
            let used = self.used(item, value);
            self.remaining[used] -= times;
            self.is_live_above_goal[value as usize] |= self.exceeding > self.exceeding_at_start[used];
            if self.remaining[used] == 0 && model.values[value as usize].ends {
                let block = std::mem::take(&mut self.blocks[used]);
                self.live[model.values[value as usize].buffer as usize] -= block;
            }
        }
        if let Some(value) = node.computes {
            self.shrink(if item.again { self.copy(value) } else { value as usize }, value);
        }
    }

    /// Frees the part of a larger in-place source's block beyond the size of the result.
    fn shrink(&mut self, result: usize, value: ValueId) {
        let value = self.model.values[value as usize];
        let beyond = self.blocks[result].saturating_sub(value.size);
        self.blocks[result] -= beyond;
        self.live[value.buffer as usize] -= beyond;
    }

    fn allocate(&mut self, result: usize, value: ValueId) {
        if self.blocks[result] == 0 {
            let value = self.model.values[value as usize];
            self.blocks[result] = value.size;
            let live = &mut self.live[value.buffer as usize];
            *live += value.size;
            let peak = &mut self.peaks[value.buffer as usize];
            *peak = (*live).max(*peak);
        }
    }
}
