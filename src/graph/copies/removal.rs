//! Visits all copies of a graph and removes those it can.

use crate::graph::access::History;
use crate::graph::{Effect, Flags, Graph, TensorId};
use crate::placement::Step;

use super::changes::{Becomes, Found};
use super::facts::{CopyKind, Facts};
use super::moves::{CopyDestination, Move, count};
use super::state::CopyState;

/// How much the removal may change the memory that an allocator plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Freedom {
    /// Nothing: other nodes may only write to memory that is allocated already.
    Nothing,
    /// Which tensor owns it, as long as no live range gets longer.
    Owners,
    /// Live ranges too: a CONCAT is then live from the first of its operands on.
    LiveRanges,
}

/// Finds the copies in `graph` that need not be made, and the changes that remove them.
pub fn find(graph: &Graph, facts: Facts<'_>, freedom: Freedom) -> Found {
    let Some(state) = CopyState::new(graph, facts) else { return Found::default() };
    let (history, anything) = (history(&state), anything(&state));
    let mut pass = Pass { state, history, anything, freedom, found: Found::default() };
    let has_flag_compute = graph.has_flag_compute();
    // A copy that backends skip must not be made by its producer instead.
    let is_computed = |node: TensorId| !has_flag_compute || graph.tensor(node).flags.has(Flags::COMPUTE);
    for step in (0..graph.steps()).rev().filter(|&step| (step as usize) < graph.nodes().len()) {
        let node = graph.nodes()[step as usize];
        let is_copy = facts.kinds[node as usize] != CopyKind::Other && is_computed(node);
        if is_copy && !graph.layout(node).ne.contains(&0) {
            pass.visit(node, step);
        }
    }
    Found { changes: pass.state.into_changes(), ..pass.found }
}

/// Records the accesses to the memory that copies write to.
fn history(state: &CopyState<'_>) -> History {
    let graph = state.graph;
    let mut history = History::new(graph.tensors().len());
    for &node in graph.nodes().iter().filter(|&&node| state.facts.kinds[node as usize] != CopyKind::Other) {
        history.track(state.memory(graph.root(node)));
    }
    for (step, &node) in (0..).zip(graph.nodes()) {
        if state.facts.effects[node as usize] != Effect::View {
            for &id in graph.sources(node).iter().chain([&node]) {
                history.push(step, state.region(id));
            }
        }
    }
    history
}

/// Returns, by step, the last step before it that may do anything.
fn anything(state: &CopyState<'_>) -> Vec<Option<Step>> {
    let mut last = None;
    let last_before = |(step, &node): (Step, &TensorId)| {
        let before = last;
        if state.facts.effects[node as usize] == Effect::Anything {
            last = Some(step);
        }
        before
    };
    (0..).zip(state.graph.nodes()).map(last_before).collect()
}

/// The pass over the nodes, from the last to the first.
pub struct Pass<'a> {
    /// The graph with the changes so far.
    pub state: CopyState<'a>,
    /// The accesses to the memory that copies write to.
    pub history: History,
    /// By step: the last step before it that may do anything.
    pub anything: Vec<Option<Step>>,
    /// What may change.
    pub freedom: Freedom,
    found: Found,
}

impl Pass<'_> {
    fn visit(&mut self, node: TensorId, step: Step) {
        match self.moves(node, step) {
            Ok(moves) => self.remove(node, moves),
            Err(reason) => self.found.left[reason as usize] += 1,
        }
    }

    fn remove(&mut self, node: TensorId, moves: Vec<Move>) {
        let is_placeholder = moves.iter().any(|found| found.destination == CopyDestination::Copy);
        for found in moves {
            let layout = self.state.graph.layout(found.producer.node);
            self.found.bytes += count(&layout.ne) * layout.nb[0];
            self.apply(node, found);
        }
        self.state.change_mut(node).becomes = if is_placeholder { Becomes::Placeholder } else { Becomes::View };
        self.found.removed.push(node);
    }

    fn apply(&mut self, node: TensorId, found: Move) {
        let Move { producer, place, destination, nb, views } = found;
        for (&view, nb) in producer.views.iter().zip(views) {
            let change = self.state.change_mut(view);
            change.view = Some(place);
            change.nb = nb;
        }
        let is_output = self.state.graph.tensor(node).flags.has(Flags::OUTPUT);
        let change = self.state.change_mut(producer.node);
        change.nb = nb;
        if destination == CopyDestination::Producer {
            change.is_output = is_output;
            self.state.change_mut(node).view = Some(place);
            self.state.move_memory(node, producer.node);
        } else {
            change.view = Some(place);
            change.destination = match destination {
                CopyDestination::Tensor(destination) => Some(destination),
                CopyDestination::Copy => Some(node),
                CopyDestination::Context | CopyDestination::Producer => None,
            };
        }
    }
}
