//! The node that computes the copied tensor, with no other use.

use crate::graph::{Effect, Flags, TensorId};
use crate::placement::Step;

use super::changes::Reason;
use super::state::CopyState;

/// The longest chain of views that is followed; those of real graphs are shorter.
const MOST_VIEWS: usize = 16;

/// INPUT and OUTPUT, and ggml's PARAM and LOSS.
const KEPT: Flags = Flags(Flags::INPUT.0 | Flags::OUTPUT.0 | 4 | 8);

/// A node that computes something in its own memory, and the views through which a copy reads all of it.
#[derive(Debug)]
pub struct Producer {
    /// The node.
    pub node: TensorId,
    /// The step that runs it.
    pub step: Step,
    /// From the source of the copy back to the node; empty when the copy reads the node itself.
    pub views: Vec<TensorId>,
}

/// Returns `true` if the program uses this tensor by itself.
pub fn is_flagged(state: &CopyState<'_>, id: TensorId) -> bool {
    state.graph.tensor(id).flags.has(KEPT) || state.graph.retention().of(id).is_some()
}

impl Producer {
    /// Follows `source`, which a node at `step` copies, back to the node that computes it.
    ///
    /// # Errors
    /// The reason why there is no such node, or it has other uses.
    pub fn find(state: &CopyState<'_>, source: TensorId, step: Step) -> Result<Self, Reason> {
        let mut views = Vec::new();
        let mut at = source;
        while state.graph.tensor(at).view.is_some() {
            let &[next] = state.graph.sources(at) else { return Err(Reason::Producer) };
            let is_view = state.graph.tensor(at).op.is_view() && !is_flagged(state, at);
            if !is_view || views.len() == MOST_VIEWS {
                return Err(Reason::Producer);
            }
            views.push(at);
            at = next;
        }
        let found = Self { node: at, step: state.steps[at as usize].ok_or(Reason::Producer)?, views };
        let computes = state.graph.tensor(at).op.effect() == Effect::Result && found.step < step;
        if !computes || is_flagged(state, at) {
            return Err(Reason::Producer);
        }
        let is_alone = found.views.iter().chain([&at]).all(|&id| state.uses[id as usize] == 1)
            && state.views[at as usize] as usize == found.views.len();
        if is_alone { Ok(found) } else { Err(Reason::Readers) }
    }
}
