//! Who computes what is copied, and for nobody else.

use crate::graph::order::Effect;
use crate::graph::{Flags, TensorId};
use crate::placement::Step;

use super::found::Reason;
use super::state::State;

/// No chain of views is longer in any graph that was seen.
const LONGEST: usize = 16;

/// ggml's PARAM and LOSS, beside those that the planner heeds.
const KEPT: Flags = Flags(Flags::INPUT.0 | Flags::OUTPUT.0 | 4 | 8);

/// A node that computes something in memory of its own, and the views through which a copy reads all of it.
#[derive(Debug)]
pub struct Producer {
    /// The node.
    pub node: TensorId,
    /// When it runs.
    pub step: Step,
    /// From the source of the copy back to the node; empty when the copy reads the node itself.
    pub views: Vec<TensorId>,
}

/// Does the program expect something of this tensor by itself?
pub fn is_flagged(state: &State<'_>, id: TensorId) -> bool {
    state.graph.tensor(id).flags.has(KEPT)
}

impl Producer {
    /// Follows what a node at `step` copies, `source`, back to who computes it.
    ///
    /// # Errors
    /// Why nobody does so for this copy alone.
    pub fn find(state: &State<'_>, source: TensorId, step: Step) -> Result<Self, Reason> {
        let mut views = Vec::new();
        let mut at = source;
        while state.graph.tensor(at).view.is_some() {
            let &[next] = state.graph.sources(at) else { return Err(Reason::Producer) };
            let looks = state.facts.effects[at as usize] == Effect::View && !is_flagged(state, at);
            if !looks || views.len() == LONGEST {
                return Err(Reason::Producer);
            }
            views.push(at);
            at = next;
        }
        let found = Self { node: at, step: state.steps[at as usize].ok_or(Reason::Producer)?, views };
        let computes = state.facts.effects[at as usize] == Effect::Result && found.step < step;
        if !computes || is_flagged(state, at) {
            return Err(Reason::Producer);
        }
        let is_alone = found.views.iter().chain([&at]).all(|&id| state.readers[id as usize] == 1)
            && state.views[at as usize] as usize == found.views.len();
        if is_alone { Ok(found) } else { Err(Reason::Readers) }
    }
}
