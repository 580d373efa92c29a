//! The memory of plans that are not needed any more, for the next plan of any allocator.

use crate::ggml::live::spare::Spare;
use crate::ggml::read::requested::Requested;
use crate::ggml::read::spare_lists::MOST_TENSORS;
use crate::graph::{GraphPlan, PlanMemory};
use crate::placement::Problem;

static SPARE: Spare<Box<PlanningMemory>> = Spare::none();

static SPARE_PLANS: Spare<GraphPlan> = Spare::none();

/// Lists that are filled while a plan is made. Their contents are discarded and their capacity is reused.
#[derive(Debug, Default)]
pub struct PlanningMemory {
    pub plan: PlanMemory,
    /// The only buffer, for every leaf and node.
    pub requested: Requested,
}

impl PlanningMemory {
    /// Takes the memory that was left last, with that of a plan.
    pub fn take() -> Box<Self> {
        let mut memory = SPARE.take().unwrap_or_default();
        if let Some(plan) = SPARE_PLANS.take() {
            memory.plan.take_plan(plan);
        }
        memory
    }

    /// Leaves the memory, in which a graph of `tensors` tensors was planned, to the next plan.
    pub fn leave(self: Box<Self>, tensors: usize) {
        if tensors <= MOST_TENSORS {
            SPARE.leave(self);
        }
    }
}

/// Leaves the memory of a plan to a later one.
pub fn leave_plan(plan: GraphPlan) {
    if plan.allocations.len() <= MOST_TENSORS {
        SPARE_PLANS.leave(plan);
    }
}

/// Leaves the memory of placement problems to the next plan.
pub fn leave_problems(problems: Vec<Problem>) {
    SPARE.update(|memory| memory.plan.take_problems(problems));
}
