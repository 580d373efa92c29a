//! Visits all copies of a graph and removes those it can.

use crate::graph::{Flags, Graph, Op, TensorId};
use crate::placement::Step;

use super::moves::{CopyDestination, Move, count};
use super::state::{CopyState, Pass};
use super::{CopyFacts, Found, Freedom};

/// Finds the copies in `graph` that need not be made, and the changes that remove them.
pub fn find(graph: &Graph, facts: CopyFacts<'_>, freedom: Freedom) -> Found {
    let Some(state) = CopyState::new(graph, facts) else { return Found::default() };
    let mut pass = Pass::new(state, freedom);
    let has_flag_compute = graph.has_flag_compute();
    // A copy that backends skip must not be made by its producer instead.
    let is_computed = |node: TensorId| !has_flag_compute || graph.tensor(node).flags.has(Flags::COMPUTE);
    for step in (0..graph.steps()).rev().filter(|&step| (step as usize) < graph.nodes().len()) {
        let node = graph.nodes()[step as usize];
        let is_copy = graph.tensor(node).op.copies().is_some() && is_computed(node);
        if is_copy && !graph.layout(node).ne.contains(&0) {
            pass.visit(node, step);
        }
    }
    let edit = (!pass.found.removed.is_empty()).then(|| pass.state.finish());
    Found { edit, ..pass.found }
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
        let edit = &mut self.state.edit;
        // A cast is a source of itself.
        let others = edit.sources(node).iter().copied().filter(|&source| source != node && !is_placeholder);
        let others: Vec<TensorId> = others.collect();
        edit.set_sources(node, &others);
        edit.tensor_mut(node).set_op(if is_placeholder { Op::None } else { Op::Reshape });
        self.found.removed.push(node);
    }

    fn apply(&mut self, node: TensorId, found: Move) {
        let Move { producer, place, destination, nb, views } = found;
        let is_output = self.state.graph.tensor(node).flags.has(Flags::OUTPUT);
        let edit = &mut self.state.edit;
        for (&view, nb) in producer.views.iter().zip(views) {
            edit.tensor_mut(view).view = Some(place);
            edit.set_strides(view, nb);
        }
        edit.set_strides(producer.node, nb);
        if destination == CopyDestination::Producer {
            edit.tensor_mut(producer.node).flags.0 |= if is_output { Flags::OUTPUT.0 } else { 0 };
            edit.tensor_mut(node).view = Some(place);
            self.state.move_memory(node, producer.node);
        } else {
            edit.tensor_mut(producer.node).view = Some(place);
            match destination {
                CopyDestination::Tensor(destination) => edit.add_source(producer.node, destination),
                CopyDestination::Copy => edit.add_source(producer.node, node),
                CopyDestination::Context | CopyDestination::Producer => {}
            }
        }
    }
}
