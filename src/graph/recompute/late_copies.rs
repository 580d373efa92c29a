//! The places of copies in a given order of execution.

use crate::placement::Step;

use super::facts::Facts;
use super::schedule::{Item, Scheduler};

/// Places copies. Keeps its memory between calls.
#[derive(Debug)]
pub struct LateCopies<'a> {
    facts: &'a Facts,
    /// By step: the sink that it is.
    sink_at: Vec<Option<u32>>,
    /// By forward step: whether it has run, and whether it has run again.
    has_run: Vec<bool>,
    has_run_again: Vec<bool>,
    /// By sink: for how many copies it still waits, and whether its place has come.
    waits_for: Vec<u32>,
    is_due: Vec<bool>,
    items: Vec<Item>,
}

impl<'a> LateCopies<'a> {
    /// For the nodes of a graph.
    pub fn new(facts: &'a Facts) -> Self {
        let mut sink_at = vec![None; facts.sources.len()];
        (0..).zip(&facts.sinks).for_each(|(number, sink)| sink_at[sink.step as usize] = Some(number));
        Self {
            facts,
            sink_at,
            has_run: vec![false; facts.boundary as usize],
            has_run_again: vec![false; facts.boundary as usize],
            waits_for: vec![0; facts.sinks.len()],
            is_due: vec![false; facts.sinks.len()],
            items: Vec::new(),
        }
    }

    /// Returns the nodes in the order of `items`, with the copies that `again` found last. Copies in `items` stay where
    /// they are, or move up to their first use; others run right before their first use. `None` where a node would run
    /// before what it uses.
    pub fn place(&mut self, items: &[Item], again: &Scheduler<'_>) -> Option<Vec<Item>> {
        self.begin(again);
        for &item in items {
            if item.again {
                if again.runs_again(item.step) {
                    self.run_again([item.step], again)?;
                }
            } else if item.step < self.facts.boundary {
                self.has_run[item.step as usize] = true;
                self.items.push(item);
            } else {
                self.run_again(self.facts.sources[item.step as usize].iter().copied(), again)?;
                match self.sink_at[item.step as usize] {
                    None => self.items.push(item),
                    Some(sink) => {
                        self.is_due[sink as usize] = true;
                        self.run_sink(sink);
                    }
                }
            }
        }
        Some(std::mem::take(&mut self.items))
    }

    fn begin(&mut self, again: &Scheduler<'_>) {
        self.has_run.fill(false);
        self.has_run_again.fill(false);
        self.waits_for.fill(0);
        self.is_due.fill(false);
        self.items.clear();
        for (_, waiting) in (0..).zip(&self.facts.waiting_for_copy).filter(|&(step, _)| again.runs_again(step)) {
            waiting.iter().for_each(|&sink| self.waits_for[sink as usize] += 1);
        }
    }

    /// Runs those of `steps` again that are to run again and have not yet, after all that they need in turn.
    fn run_again(&mut self, steps: impl IntoIterator<Item = Step>, again: &Scheduler<'_>) -> Option<()> {
        let first = self.items.len();
        let mut open: Vec<Step> = steps.into_iter().collect();
        while let Some(step) = open.pop() {
            if !self.has_run[step as usize] {
                return None;
            }
            if again.runs_again(step) && !std::mem::replace(&mut self.has_run_again[step as usize], true) {
                self.items.push(Item { step, again: true });
                open.extend(&self.facts.sources[step as usize]);
            }
        }
        self.items[first..].sort_unstable_by_key(|item| item.step);
        for at in first..self.items.len() {
            for &sink in &self.facts.waiting_for_copy[self.items[at].step as usize] {
                self.waits_for[sink as usize] -= 1;
                self.run_sink(sink);
            }
        }
        Some(())
    }

    /// Runs a sink if its place has come and it waits for no copy.
    fn run_sink(&mut self, sink: u32) {
        if self.is_due[sink as usize] && self.waits_for[sink as usize] == 0 {
            self.items.push(Item { step: self.facts.sinks[sink as usize].step, again: false });
        }
    }
}
