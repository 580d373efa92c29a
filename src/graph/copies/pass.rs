//! The pass over the nodes of a graph in which copies are removed.

use crate::graph::access::History;
use crate::graph::{Effect, TensorId};
use crate::placement::Step;

use super::changes::Found;
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

/// The pass over the nodes, from the last to the first.
pub struct Pass<'a> {
    /// The graph with the changes so far.
    pub state: CopyState<'a>,
    /// The accesses to the memory that copies write to.
    pub history: History,
    /// By step: the last step before it that may do anything.
    pub anything: Vec<Option<Step>>,
    /// The tensors that may change.
    pub freedom: Freedom,
    /// The results so far.
    pub found: Found,
}

impl<'a> Pass<'a> {
    /// Starts the pass on a graph without changes.
    pub fn new(state: CopyState<'a>, freedom: Freedom) -> Self {
        let (history, anything) = (history(&state), anything(&state));
        Self { state, history, anything, freedom, found: Found::default() }
    }
}

/// Records the accesses to the memory that copies write to.
fn history(state: &CopyState<'_>) -> History {
    let graph = state.graph;
    let mut history = History::new(graph.tensors().len());
    for &node in graph.nodes().iter().filter(|&&node| graph.tensor(node).op.copies().is_some()) {
        history.track(state.memory(graph.root(node)));
    }
    for (step, &node) in (0..).zip(graph.nodes()) {
        if !graph.tensor(node).op.is_view() {
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
        if state.graph.tensor(node).op.effect() == Effect::Anything {
            last = Some(step);
        }
        before
    };
    (0..).zip(state.graph.nodes()).map(last_before).collect()
}
