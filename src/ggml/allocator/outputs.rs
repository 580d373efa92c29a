//! Whether redirected results can be where they are wanted, asked as seldom as is right.

use crate::ggml::fingerprint::Fingerprint;
use crate::ggml::outputs::check_outputs;
use crate::ggml::read::Requested;
use crate::ggml::tensor::GraphRef;

use super::{Allocator, Refusal};

impl Allocator {
    /// Checks the redirected results of a graph that is to be planned for `requested`, or that fits such a plan.
    pub(super) fn check_outputs(&self, graph: GraphRef<'_>, requested: &Requested) -> Result<(), Refusal> {
        let buffer = |node: usize| self.types.get(requested.buffer(requested.leafs.len() + node) as usize).copied();
        check_outputs(self.runtime, graph, buffer).map_err(Refusal::Output)
    }

    /// Checks the redirected results of a graph that the latest plan is known to serve, where what it does not tell of
    /// constants has changed.
    pub(super) fn check_outputs_again(&mut self, graph: GraphRef<'_>) -> Result<(), Refusal> {
        let Some(planned) = self.plans.first().filter(|planned| planned.checked_outputs.is_some()) else {
            return Ok(());
        };
        let outputs = Fingerprint::of_outputs(self.runtime, graph);
        if outputs.is_some() && outputs != planned.checked_outputs {
            self.check_outputs(graph, &planned.requested)?;
            self.plans[0].checked_outputs = outputs;
        }
        Ok(())
    }

    /// Notes that the redirected results of a graph, if it has some, were checked for the latest plan.
    pub(super) fn note_checked_outputs(&mut self, graph: GraphRef<'_>) {
        if let Some(outputs) = Fingerprint::of_outputs(self.runtime, graph) {
            self.plans[0].checked_outputs = Some(outputs);
        }
    }
}
