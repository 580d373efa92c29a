//! The search for what to drop: the least work that fits a budget.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::graph::live_bytes::{Model, ValueId};
use crate::graph::pass::Progress;
use crate::placement::{Bytes, Step};

use super::checkpoints::checkpoints;
use super::estimate::Estimator;
use super::facts::NodeFacts;
use super::schedule::{Item, Scheduler};

/// The parts of the live bytes by which goals lie below them.
const STAGES: [Bytes; 5] = [96, 24, 8, 24, 96];

/// A choice of results to drop, and the memory that the graph then needs.
#[derive(Clone, Debug)]
pub struct Choice {
    /// By value.
    pub dropped: Vec<bool>,
    /// The most live bytes at a time.
    pub bytes: Bytes,
    /// Work that is done again.
    pub work: u64,
}

/// The search. All of it is counted in nodes simulated, never in time.
pub struct Search<'a, 'p> {
    facts: &'a NodeFacts,
    model: &'a Model,
    scheduler: Scheduler<'a>,
    estimator: Estimator<'a>,
    /// By value: the forward steps that compute it or are views of it.
    steps_of: Vec<Vec<Step>>,
    /// How many nodes one call of [`Search::choose`] may simulate.
    effort: u64,
    /// How many the current part of the search may still simulate, and how many others may after it.
    left: u64,
    left_for_others: u64,
    progress: &'a mut Progress<'p>,
    is_cancelled: bool,
}

/// How many parts a search has.
const PARTS: u64 = 4;

impl<'a, 'p> Search<'a, 'p> {
    /// Creates a search that simulates about `effort` nodes for each choice, and reports the part of it that is used.
    pub fn new(facts: &'a NodeFacts, model: &'a Model, effort: u64, progress: &'a mut Progress<'p>) -> Self {
        let mut steps_of = vec![Vec::new(); model.values.len()];
        for (step, value) in (0..).zip(&facts.values) {
            if let Some(value) = value {
                steps_of[*value as usize].push(step);
            }
        }
        let (scheduler, estimator) = (Scheduler::new(facts), Estimator::new(model, facts.boundary));
        let (left, left_for_others, is_cancelled) = (effort, 0, false);
        Self { facts, model, scheduler, estimator, steps_of, effort, left, left_for_others, progress, is_cancelled }
    }

    /// Returns `true` once the caller has cancelled the search.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled
    }

    /// Returns the choice with the least work found that fits `budget`. Where none does, returns the smallest choice
    /// found, which any budget of at least its bytes finds too.
    pub fn choose(&mut self, budget: Bytes) -> Choice {
        self.progress.start_stage();
        let (mut smallest, least_work) = self.first_choices(budget);
        self.start_part(1);
        let from = smallest.clone();
        self.sharpen(&mut smallest, budget, budget);
        self.start_part(2);
        if smallest.bytes > budget {
            smallest = from;
            self.sharpen(&mut smallest, 0, budget);
        }
        if smallest.bytes > budget {
            return smallest;
        }
        let mut best = smallest.clone();
        for (part, mut choice) in (3..).zip([smallest].into_iter().chain(least_work)) {
            self.start_part(part);
            self.keep_more(&mut choice, budget);
            if (choice.work, choice.bytes) < (best.work, best.bytes) {
                best = choice;
            }
        }
        best
    }

    /// Returns the choices to begin with: the one with the fewest bytes, and the one with the least work that fits.
    fn first_choices(&mut self, budget: Bytes) -> (Choice, Option<Choice>) {
        let nothing = self.evaluate(vec![false; self.model.values.len()]);
        let mut least_work = (nothing.bytes <= budget).then(|| nothing.clone());
        let mut smallest = nothing;
        for dropped in checkpoints(self.facts, self.model) {
            let choice = self.evaluate(dropped);
            let is_less = |than: &Choice| (choice.work, choice.bytes) < (than.work, than.bytes);
            if choice.bytes <= budget && least_work.as_ref().is_none_or(is_less) {
                least_work = Some(choice.clone());
            }
            if (choice.bytes, choice.work) < (smallest.bytes, smallest.work) {
                smallest = choice;
            }
        }
        (smallest, least_work)
    }

    /// Gives the next part of the search its share of the effort.
    fn start_part(&mut self, part: u64) {
        self.left = if self.is_cancelled { 0 } else { self.effort / PARTS };
        self.left_for_others = self.left * PARTS.saturating_sub(part);
    }

    /// Lowers the live bytes until they are at most `enough` or no single value lowers them: drops values, or keeps
    /// them. Many nodes may be near the peak, so that each change lowers some of them; and a goal far below the peak,
    /// but not below `floor`, lets a value raise one node a little to lower others much.
    fn sharpen(&mut self, choice: &mut Choice, floor: Bytes, enough: Bytes) {
        let mut is_lower = true;
        while std::mem::take(&mut is_lower) {
            let mut trial = choice.clone();
            for part in STAGES {
                if choice.bytes <= enough {
                    return;
                }
                let goal = floor.max(choice.bytes - choice.bytes / part);
                self.approach(&mut trial, goal);
                if (trial.bytes, trial.work) < (choice.bytes, choice.work) {
                    *choice = trial.clone();
                    is_lower = true;
                }
            }
        }
    }

    /// Drops or keeps single values as long as that brings nodes closer to `goal`.
    fn approach(&mut self, choice: &mut Choice, goal: Bytes) {
        self.estimator.set_goal(goal);
        loop {
            *choice = self.evaluate(std::mem::take(&mut choice.dropped));
            let before = self.estimator.excess();
            let mut excess = before;
            for value in self.candidates_above_goal() {
                if excess == 0 || self.left == 0 {
                    return;
                }
                let mut dropped = choice.dropped.clone();
                dropped[value] = !dropped[value];
                let trial = self.evaluate(dropped);
                if (self.estimator.excess(), trial.work) < (excess, choice.work) {
                    (*choice, excess) = (trial, self.estimator.excess());
                }
            }
            if excess == before {
                return;
            }
        }
    }

    /// Returns the values that may be dropped or kept and were live above the goal in the last simulation.
    fn candidates_above_goal(&self) -> Vec<usize> {
        let is_live = self.estimator.live_above_goal().iter();
        let both = is_live.zip(&self.facts.candidates).map(|(&is_live, candidate)| is_live && candidate.is_some());
        both.enumerate().filter(|(_, both)| *both).map(|(value, _)| value).collect()
    }

    /// Returns the order of execution of a choice.
    pub fn items(&mut self, choice: &Choice) -> Vec<Item> {
        self.scheduler.find_again(&choice.dropped);
        self.scheduler.items().to_vec()
    }

    fn evaluate(&mut self, dropped: Vec<bool>) -> Choice {
        let (bytes, work) = self.needs(&dropped);
        Choice { dropped, bytes, work }
    }

    fn needs(&mut self, dropped: &[bool]) -> (Bytes, u64) {
        let work = self.scheduler.find_again(dropped);
        let items = self.scheduler.items();
        self.left = self.left.saturating_sub(items.len() as u64);
        let peak = self.estimator.peak(items);
        self.report();
        (peak, work)
    }

    fn report(&mut self) {
        let left = self.left + self.left_for_others;
        if !self.is_cancelled && !self.progress.used(left, self.effort) {
            (self.is_cancelled, self.left) = (true, 0);
        }
    }

    /// Keeps values again as long as the live bytes stay within `budget`: first those that save the most work for their
    /// bytes. `choice` fits the budget.
    pub fn keep_more(&mut self, choice: &mut Choice, budget: Bytes) {
        let mut waiting = self.gains(&choice.dropped);
        let mut trial = choice.dropped.clone();
        let mut count = 1;
        while self.left > 0 {
            let mut kept = Vec::new();
            self.scheduler.find_again(&trial);
            let needs = self.needs_of_again(&trial);
            let mut counts = needs;
            while kept.len() < count {
                let Some(top) = waiting.pop() else { break };
                let gain = self.gain(top.value, &trial, &mut counts, false);
                match waiting.peek() {
                    Some(next) if gain < *next && gain.work > 0 => waiting.push(gain),
                    _ if gain.work == 0 => {}
                    _ => {
                        self.gain(top.value, &trial, &mut counts, true);
                        kept.push(gain);
                    }
                }
            }
            if kept.is_empty() {
                return;
            }
            kept.iter().for_each(|gain| trial[gain.value as usize] = false);
            let (bytes, work) = self.needs(&trial);
            if bytes <= budget {
                *choice = Choice { dropped: trial.clone(), bytes, work };
                count *= 2;
            } else {
                kept.iter().for_each(|gain| trial[gain.value as usize] = true);
                if count > 1 {
                    waiting.extend(kept);
                }
                count = (count / 4).max(1);
            }
        }
    }

    /// Returns what keeping each value that is computed again would save.
    fn gains(&mut self, dropped: &[bool]) -> BinaryHeap<Gain> {
        self.scheduler.find_again(dropped);
        let mut counts = self.needs_of_again(dropped);
        let values = 0..ValueId::try_from(self.model.values.len()).expect("fewer than 2^32 values");
        let candidates = values.filter(|&value| dropped[value as usize]);
        candidates.map(|value| self.gain(value, dropped, &mut counts, false)).filter(|gain| gain.work > 0).collect()
    }

    /// Returns, by forward step, how many nodes need it to run again.
    fn needs_of_again(&self, dropped: &[bool]) -> Vec<u32> {
        let facts = self.facts;
        let mut counts = vec![0; facts.boundary as usize];
        for (step, sources) in (0..).zip(&facts.sources) {
            if step >= facts.boundary || self.scheduler.runs_again(step) {
                let again = sources.iter().filter(|&&source| self.is_dropped(dropped, source));
                again.for_each(|&source| counts[source as usize] += 1);
            }
        }
        counts
    }

    fn is_dropped(&self, dropped: &[bool], step: Step) -> bool {
        self.facts.values[step as usize].is_some_and(|value| dropped[value as usize])
    }

    /// Returns the work that is saved if a value is kept: that of its node, and of those that ran again for it alone.
    /// `counts` has how many need each step; it is changed only if `keeps`.
    fn gain(&self, value: ValueId, dropped: &[bool], counts: &mut [u32], keeps: bool) -> Gain {
        let size = self.model.values[value as usize].size.max(1);
        let own = &self.steps_of[value as usize];
        let mut open: Vec<Step> = own.iter().copied().filter(|&step| counts[step as usize] > 0).collect();
        let mut undo: Vec<(Step, u32)> = Vec::new();
        for &step in &open {
            undo.push((step, counts[step as usize]));
            counts[step as usize] = 0;
        }
        let mut work = 0u64;
        while let Some(step) = open.pop() {
            work = work.saturating_add(self.facts.work[step as usize]);
            for &source in &self.facts.sources[step as usize] {
                if counts[source as usize] > 0 && self.is_dropped(dropped, source) {
                    undo.push((source, counts[source as usize]));
                    counts[source as usize] -= 1;
                    if counts[source as usize] == 0 {
                        open.push(source);
                    }
                }
            }
        }
        if !keeps {
            undo.into_iter().rev().for_each(|(step, count)| counts[step as usize] = count);
        }
        Gain { value, work, size }
    }
}

/// The work that is saved for the bytes of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gain {
    value: ValueId,
    work: u64,
    size: Bytes,
}

impl Ord for Gain {
    fn cmp(&self, other: &Self) -> Ordering {
        let product = |one: u64, other: u64| u128::from(one) * u128::from(other);
        let by_density = product(self.work, other.size).cmp(&product(other.work, self.size));
        by_density.then(self.size.cmp(&other.size)).then(other.value.cmp(&self.value))
    }
}

impl PartialOrd for Gain {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
