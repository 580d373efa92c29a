//! Visits all copies of a graph and removes those it can.

use crate::graph::{Flags, Graph, TensorId};
use crate::placement::Step;

use super::changes::{Becomes, Found};
use super::facts::{CopyKind, Facts};
use super::moves::{CopyDestination, Move, count};
use super::pass::{Freedom, Pass};
use super::state::CopyState;

/// Finds the copies in `graph` that need not be made, and the changes that remove them.
pub fn find(graph: &Graph, facts: Facts<'_>, freedom: Freedom) -> Found {
    let Some(state) = CopyState::new(graph, facts) else { return Found::default() };
    let mut pass = Pass::new(state, freedom);
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
