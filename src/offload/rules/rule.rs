//! The three rules as one type, to compare them.

use super::any_operand::any_operand;
use super::backends::Backends;
use super::capabilities::Capabilities;
use super::offload_error::OffloadError;
use super::options::SchedulerOptions;
use super::placed_graph::PlacedGraph;
use super::powerinfer::{DestinationClasses, powerinfer};
use super::scheduled_graph::Schedule;
use super::scheduler::schedule;

/// A offload rules for intermediates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// [`schedule`]: what `ggml_backend_sched` does.
    Scheduler(SchedulerOptions),
    /// [`any_operand`]: on the GPU if any operand is.
    AnyOperand,
    /// [`powerinfer`]: by the class of the result and of two operands.
    PowerInfer(DestinationClasses),
}

impl Rule {
    /// Returns the name of the rule.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Scheduler(_) => "scheduler",
            Self::AnyOperand => "any-operand",
            Self::PowerInfer(_) => "powerinfer",
        }
    }

    /// Places the intermediates of a graph.
    ///
    /// # Errors
    /// [`OffloadError`], as the function of the rule.
    pub fn place<C: Capabilities>(
        &self,
        placed: PlacedGraph<'_>,
        backends: &Backends,
        capabilities: &C,
    ) -> Result<Schedule, OffloadError> {
        match self {
            Self::Scheduler(options) => schedule(placed, backends, capabilities, *options),
            Self::AnyOperand => any_operand(placed, backends, capabilities),
            Self::PowerInfer(classes) => powerinfer(placed, backends, capabilities, classes),
        }
    }
}
