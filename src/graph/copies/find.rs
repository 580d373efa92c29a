//! Which copies can go.

use crate::graph::order::Effect;
use crate::graph::{Flags, Graph, TensorId};
use crate::placement::Step;

use super::facts::{Facts, Kind};
use super::found::{Becomes, Found};
use super::moves::{Given, Move, count};
use super::state::State;
use super::touches::Touches;

/// How much of the memory that an allocator gives may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Freedom {
    /// Nothing: only what has its memory is written to by others.
    Nothing,
    /// Who lives in it, as long as nothing has to live longer.
    Owners,
    /// Also when it is given: a CONCAT then is alive from the first of its operands on.
    Births,
}

/// GraphKey for copies in `graph` that need not be made.
pub fn find(graph: &Graph, facts: Facts<'_>, freedom: Freedom) -> Found {
    let Some(state) = State::new(graph, facts) else { return Found::default() };
    let (touches, anything) = (touches(&state), anything(&state));
    let mut pass = Pass { state, touches, anything, freedom, found: Found::default() };
    let has_flag_compute = graph.has_flag_compute();
    // A copy that backends skip must not be made by its producer instead.
    let is_computed = |node: TensorId| !has_flag_compute || graph.tensor(node).flags.has(Flags::COMPUTE);
    for step in (0..graph.steps()).rev().filter(|&step| (step as usize) < graph.nodes().len()) {
        let node = graph.nodes()[step as usize];
        let is_copy = facts.kinds[node as usize] != Kind::Other && is_computed(node);
        if is_copy && !graph.layout(node).ne.contains(&0) {
            pass.look_at(node, step);
        }
    }
    Found { changes: pass.state.into_changes(), ..pass.found }
}

/// Who touches the memory that copies write to.
fn touches(state: &State<'_>) -> Touches {
    let graph = state.graph;
    let mut touches = Touches::new(graph.tensors().len());
    for &node in graph.nodes().iter().filter(|&&node| state.facts.kinds[node as usize] != Kind::Other) {
        touches.ask_about(state.memory(graph.root(node)));
    }
    for (step, &node) in (0..).zip(graph.nodes()) {
        if state.facts.effects[node as usize] != Effect::View {
            for &id in graph.sources(node).iter().chain([&node]) {
                touches.push(step, state.region(id));
            }
        }
    }
    touches
}

/// By step: the last before it that may do anything.
fn anything(state: &State<'_>) -> Vec<Option<Step>> {
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

/// The search, on its way from the last node to the first.
pub struct Pass<'a> {
    /// The graph with the changes so far.
    pub state: State<'a>,
    /// Who touches the memory that copies write to.
    pub touches: Touches,
    /// By step: the last before it that may do anything.
    pub anything: Vec<Option<Step>>,
    /// What may change.
    pub freedom: Freedom,
    found: Found,
}

impl Pass<'_> {
    fn look_at(&mut self, node: TensorId, step: Step) {
        match self.moves(node, step) {
            Ok(moves) => self.remove(node, moves),
            Err(reason) => self.found.left[reason as usize] += 1,
        }
    }

    fn remove(&mut self, node: TensorId, moves: Vec<Move>) {
        let place = moves.iter().any(|found| found.given == Given::ToCopy);
        for found in moves {
            let layout = self.state.graph.layout(found.producer.node);
            self.found.bytes += count(&layout.ne) * layout.nb[0];
            self.apply(node, found);
        }
        self.state.change_mut(node).becomes = if place { Becomes::Place } else { Becomes::Look };
        self.found.removed.push(node);
    }

    fn apply(&mut self, node: TensorId, found: Move) {
        let Move { producer, place, given, nb, views } = found;
        for (&view, nb) in producer.views.iter().zip(views) {
            let change = self.state.change_mut(view);
            change.view = Some(place);
            change.nb = nb;
        }
        let is_output = self.state.graph.tensor(node).flags.has(Flags::OUTPUT);
        let change = self.state.change_mut(producer.node);
        change.nb = nb;
        if given == Given::ToProducer {
            change.is_output = is_output;
            self.state.change_mut(node).view = Some(place);
            self.state.move_memory(node, producer.node);
        } else {
            change.view = Some(place);
            change.wanted = match given {
                Given::To(wanted) => Some(wanted),
                Given::ToCopy => Some(node),
                Given::Already | Given::ToProducer => None,
            };
        }
    }
}
