//! Less work in a given order of execution: a result is kept instead of computed again, or something cheaper is dropped
//! for it.

use crate::graph::live_bytes::Model;
use crate::placement::{Bytes, Step};

use super::estimate::Estimator;
use super::facts::NodeFacts;
use super::schedule::{Item, Scheduler};

/// How many times as long a simulation takes as finding out what runs again.
const SIMULATION: u64 = 4;

/// An order of execution, and the results that it drops.
#[derive(Clone, Debug)]
pub struct Ordered {
    /// The nodes in their order.
    pub items: Vec<Item>,
    /// By value.
    pub dropped: Vec<bool>,
    /// Work that is done again.
    pub work: u64,
}

/// How many exchanges are remembered: an order for each takes as long as all of the search.
const REMEMBERED: usize = 3;

/// The search. It is counted in nodes simulated.
pub struct LessWork<'a> {
    facts: &'a NodeFacts,
    scheduler: Scheduler<'a>,
    copies: LateCopies<'a>,
    estimator: Estimator<'a>,
    left: u64,
    /// Exchanges that save work and need more than the limit, with their bytes, the fewest first.
    too_large: Vec<(Bytes, Ordered)>,
}

impl<'a> LessWork<'a> {
    /// Creates a search that simulates about `effort` nodes.
    pub fn new(facts: &'a NodeFacts, model: &'a Model, effort: u64) -> Self {
        Self {
            facts,
            scheduler: Scheduler::new(facts),
            copies: LateCopies::new(facts),
            estimator: Estimator::new(model, facts.boundary),
            left: effort,
            too_large: Vec::new(),
        }
    }

    /// Returns the most live bytes at a time.
    pub fn peak(&mut self, items: &[Item]) -> Bytes {
        self.left = self.left.saturating_sub(items.len() as u64);
        self.estimator.peak(items)
    }

    /// Lowers the work as long as the live bytes are at most `limit`, which they are in the order given.
    pub fn search(&mut self, mut current: Ordered, limit: Bytes) -> Ordered {
        self.estimator.set_goal(limit);
        loop {
            let work = current.work;
            for value in self.by_work(&current) {
                if let Some(better) = self.keep(&current, value, limit) {
                    current = better;
                }
                if self.left == 0 {
                    return current;
                }
            }
            if current.work == work {
                return current;
            }
        }
    }

    /// Returns the values that are computed again, those first whose nodes have the most work.
    fn by_work(&mut self, current: &Ordered) -> Vec<usize> {
        self.scheduler.find_again(&current.dropped);
        let steps = self.facts.candidates.iter().enumerate();
        let steps = steps.filter_map(|(value, step)| step.map(|step| (value, step)));
        let mut again: Vec<(usize, Step)> = steps.filter(|&(_, step)| self.scheduler.runs_again(step)).collect();
        again.sort_by_key(|&(_, step)| std::cmp::Reverse(self.facts.work[step as usize]));
        again.into_iter().map(|(value, _)| value).collect()
    }

    fn work(&mut self, dropped: &[bool]) -> u64 {
        self.left = self.left.saturating_sub(self.facts.sources.len() as u64 / SIMULATION);
        self.scheduler.find_again(dropped)
    }

    /// Keeps a value that is dropped, if need be by dropping another one that is live where memory is short.
    fn keep(&mut self, current: &Ordered, value: usize, limit: Bytes) -> Option<Ordered> {
        if !current.dropped[value] {
            return None;
        }
        let kept = flipped(&current.dropped, value);
        let (trial, bytes) = self.trial(current, kept.clone())?;
        if bytes <= limit {
            return Some(trial);
        }
        let is_live = self.estimator.live_above_goal().iter();
        let others = is_live.zip(&self.facts.candidates).zip(&kept).enumerate();
        let others = others.filter(|(_, ((is_live, step), dropped))| **is_live && step.is_some() && !**dropped);
        let others: Vec<usize> = others.map(|(other, _)| other).filter(|&other| other != value).collect();
        for other in others {
            let Some((trial, bytes)) = self.trial(current, flipped(&kept, other)) else { continue };
            if bytes <= limit {
                return Some(trial);
            }
            self.remember(trial, bytes);
        }
        None
    }

    /// Remembers an exchange, if it is one of the [`REMEMBERED`] with the fewest bytes.
    fn remember(&mut self, trial: Ordered, bytes: Bytes) {
        let at = self.too_large.partition_point(|(other, than)| (*other, than.work) <= (bytes, trial.work));
        if at < REMEMBERED {
            self.too_large.insert(at, (bytes, trial));
            self.too_large.truncate(REMEMBERED);
        }
    }

    /// Takes the exchanges that came closest to the limit, for which another order may have a peak within it.
    pub fn take_too_large(&mut self) -> impl Iterator<Item = Ordered> + use<> {
        std::mem::take(&mut self.too_large).into_iter().map(|(_, exchange)| exchange)
    }

    /// Returns the order for another choice of what to drop, and its live bytes, if it has less work.
    fn trial(&mut self, current: &Ordered, dropped: Vec<bool>) -> Option<(Ordered, Bytes)> {
        if self.left == 0 {
            return None;
        }
        let work = self.work(&dropped);
        if work >= current.work {
            return None;
        }
        let items = self.copies.place(&current.items, &self.scheduler)?;
        let bytes = self.peak(&items);
        Some((Ordered { items, dropped, work }, bytes))
    }
}

fn flipped(dropped: &[bool], value: usize) -> Vec<bool> {
    let mut dropped = dropped.to_vec();
    dropped[value] = !dropped[value];
    dropped
}

/// Places copies. Keeps its memory between calls.
#[derive(Debug)]
pub struct LateCopies<'a> {
    facts: &'a NodeFacts,
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
    pub fn new(facts: &'a NodeFacts) -> Self {
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
