//! Less work in a given order of execution: a result is kept instead of computed again, or something cheaper is dropped
//! for it.

use crate::graph::live_bytes::Model;
use crate::placement::{Bytes, Step};

use super::estimate::Estimator;
use super::facts::Facts;
use super::late_copies::LateCopies;
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
    facts: &'a Facts,
    scheduler: Scheduler<'a>,
    copies: LateCopies<'a>,
    estimator: Estimator<'a>,
    left: u64,
    /// Exchanges that save work and need more than the limit, with their bytes, the fewest first.
    too_large: Vec<(Bytes, Ordered)>,
}

impl<'a> LessWork<'a> {
    /// Creates a search that simulates about `effort` nodes.
    pub fn new(facts: &'a Facts, model: &'a Model, effort: u64) -> Self {
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
