//! The order of execution that follows from the dropped results: when each node runs, and when it runs again.

use crate::graph::live_bytes::ValueId;
use crate::graph::{Edited, Graph, GraphEdit, TensorId};
use crate::placement::Step;

use super::facts::NodeFacts;

/// One node of the new order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its step in the given order.
    pub step: Step,
    /// Whether it runs for the second time, on a copy of the node.
    pub again: bool,
}

/// The values that the backward pass finds dropped, by value.
pub type Dropped = [bool];

/// Computes orders of execution. Keeps its memory between calls.
#[derive(Debug)]
pub struct Scheduler<'a> {
    facts: &'a NodeFacts,
    /// By forward step: before which step it runs again, [`Scheduler::NEVER`] if it does not.
    again_before: Vec<Step>,
    /// By step: the first forward step that runs again before it; and by forward step, the next one.
    first: Vec<Step>,
    next: Vec<Step>,
    /// By sink: how many nodes it still waits for.
    waits_for: Vec<u32>,
    /// By step: whether it is a sink.
    is_sink: Vec<bool>,
    items: Vec<Item>,
}

impl<'a> Scheduler<'a> {
    const NEVER: Step = Step::MAX;

    /// Creates a scheduler for a graph.
    pub fn new(facts: &'a NodeFacts) -> Self {
        let mut is_sink = vec![false; facts.sources.len()];
        facts.sinks.iter().for_each(|sink| is_sink[sink.step as usize] = true);
        Self {
            facts,
            again_before: vec![Self::NEVER; facts.boundary as usize],
            first: vec![Self::NEVER; facts.sources.len()],
            next: vec![Self::NEVER; facts.boundary as usize],
            waits_for: Vec::new(),
            is_sink,
            items: Vec::new(),
        }
    }

    /// Finds out which nodes run again, and returns their work. A node runs again as late as possible: right before the
    /// first node of the backward pass, or of those that run again, which needs it.
    pub fn find_again(&mut self, dropped: &Dropped) -> u64 {
        let facts = self.facts;
        self.again_before.fill(Self::NEVER);
        let mut work = 0u64;
        for step in (0..facts.sources.len()).rev() {
            let before = match self.again_before.get(step) {
                None => Step::try_from(step).expect("fewer than 2^32 nodes"),
                Some(&Self::NEVER) => continue,
                Some(&before) => {
                    work = work.saturating_add(facts.work[step]);
                    before
                }
            };
            for &source in &facts.sources[step] {
                if is_dropped(facts, dropped, source) {
                    let at = &mut self.again_before[source as usize];
                    *at = before.min(*at);
                }
            }
        }
        work
    }

    /// Returns `true` if a forward step runs again, as found last.
    pub fn runs_again(&self, step: Step) -> bool {
        self.again_before[step as usize] != Self::NEVER
    }

    /// Returns the order of execution for what [`Scheduler::find_again`] found last.
    pub fn items(&mut self) -> &[Item] {
        self.first.fill(Self::NEVER);
        self.waits_for.clear();
        self.waits_for.extend(self.facts.sinks.iter().map(|sink| sink.waits_for));
        for step in (0..self.facts.boundary).rev().filter(|&step| self.again_before[step as usize] != Self::NEVER) {
            let before = self.again_before[step as usize];
            self.next[step as usize] = std::mem::replace(&mut self.first[before as usize], step);
            for &sink in &self.facts.waiting_for_copy[step as usize] {
                self.waits_for[sink as usize] += 1;
            }
        }
        self.items.clear();
        for step in 0..self.facts.sources.len() {
            let mut again = self.first[step];
            while again != Self::NEVER {
                self.run(Item { step: again, again: true });
                again = self.next[again as usize];
            }
            if !self.is_sink[step] {
                self.run(Item { step: Step::try_from(step).expect("fewer than 2^32 nodes"), again: false });
            }
        }
        &self.items
    }

    /// Adds a node, and the sinks that waited for it alone.
    fn run(&mut self, item: Item) {
        let facts = self.facts;
        self.items.push(item);
        let waiting = if item.again { &facts.waiting_for_copy } else { &facts.waiting };
        for &sink in &waiting[item.step as usize] {
            self.waits_for[sink as usize] -= 1;
            if self.waits_for[sink as usize] == 0 {
                self.run(Item { step: facts.sinks[sink as usize].step, again: false });
            }
        }
    }
}

/// Returns `true` if the value that a forward step computes, or is a view of, is dropped.
fn is_dropped(facts: &NodeFacts, dropped: &Dropped, step: Step) -> bool {
    facts.values[step as usize].is_some_and(|value: ValueId| dropped[value as usize])
}

/// Returns `graph`, whose nodes are distinct, in a new order, with copies of the nodes that run again. Nodes from step
/// `boundary` on, and those that run again, use the copy of a source that has one, and views of it are views of the copy.
pub fn with_copies(graph: &Graph, items: &[Item], boundary: Step) -> Edited {
    let mut edit = GraphEdit::new(graph);
    let mut copies: Vec<Option<TensorId>> = vec![None; graph.tensors().len()];
    let node = |item: &Item| graph.nodes()[item.step as usize];
    for item in items.iter().filter(|item| item.again) {
        copies[node(item) as usize] = Some(edit.copy(node(item)));
    }
    let listed = items.iter().map(|item| copies[node(item) as usize].filter(|_| item.again).unwrap_or(node(item)));
    edit.nodes = listed.collect();
    for (at, item) in items.iter().enumerate().filter(|(_, item)| item.again || item.step >= boundary) {
        let user = edit.nodes[at];
        // A cast is a source of itself.
        edit.refer(user, |id| copies[id as usize].filter(|_| item.again || id != user).unwrap_or(id));
    }
    edit.finish()
}
