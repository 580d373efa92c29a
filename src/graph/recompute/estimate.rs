//! The live bytes of an order of execution in which nodes run again.

use crate::graph::live_bytes::{Model, Run, ValueId, raise};
use crate::placement::{Bytes, Step};

use super::schedule::Item;

/// Simulates orders of execution. Keeps its memory between calls.
#[derive(Debug)]
pub struct Estimator<'a> {
    model: &'a Model,
    boundary: Step,
    /// Values have a second memory: that of the copy.
    run: Run<'a>,
    /// By value: whether it is computed again.
    is_again: Vec<bool>,
    /// By buffer.
    peaks: Vec<Bytes>,
    goal: Bytes,
    excess: u128,
    /// How many nodes so far exceeded the goal; and, by memory, how many had when it was computed.
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
            run: Run::new(model),
            is_again: vec![false; count],
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
        let Self { model, boundary, run, is_again, .. } = self;
        is_again.fill(false);
        let again = items.iter().filter(|item| item.again);
        again.filter_map(|item| model.computes(item.step)).for_each(|it| is_again[it as usize] = true);
        run.restart(
            2 * is_again.len(),
            items.iter().flat_map(|&item| {
                let memory = memory(is_again, *boundary, item);
                model.uses(item.step).iter().map(move |&(value, times)| (memory(value), times))
            }),
        );
        self.peaks.clear();
        self.peaks.extend_from_slice(run.live());
        (self.excess, self.exceeding) = (0, 0);
        self.exceeding_at_start.fill(0);
        self.is_live_above_goal.fill(false);
        items.iter().for_each(|&item| self.run(item));
        self.peaks.iter().sum()
    }

    fn run(&mut self, item: Item) {
        let Self { run, peaks, excess, exceeding, exceeding_at_start, .. } = self;
        let memory = memory(&self.is_again, self.boundary, item);
        if let Some(value) = self.model.computes(item.step) {
            exceeding_at_start[memory(value)] = *exceeding;
        }
        run.forward_in(item.step, memory, |live| {
            raise(peaks, live);
            let live: Bytes = live.iter().sum();
            *excess = excess.saturating_add(u128::from(live.saturating_sub(self.goal)).pow(2));
            *exceeding += u32::from(live > self.goal);
        });
        for &(value, _) in self.model.uses(item.step) {
            self.is_live_above_goal[value as usize] |= *exceeding > exceeding_at_start[memory(value)];
        }
    }
}

/// Returns in which memory a node finds a value: in that of the copy from the backward pass on, if there is one.
fn memory(is_again: &[bool], boundary: Step, item: Item) -> impl Fn(ValueId) -> usize + Copy {
    let is_late = item.again || item.step >= boundary;
    move |value| value as usize + if is_late && is_again[value as usize] { is_again.len() } else { 0 }
}
