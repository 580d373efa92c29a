//! The planner of the library, with what is captured of a program.

use lastuse::graph::snapshot::Snapshot;
use lastuse::offload::captured::{CapturedCompute, CapturedItems, CapturedRule};
use lastuse::offload::device::Device;
use lastuse::offload::planner::{NotPlaced, OffloadPlan, Order, Request};
use lastuse::offload::rules::SchedulerOptions;

use super::llama_cpp::best_variant;

/// Plans for the graphs of a program.
pub struct Planner<'a> {
    pub snapshots: &'a [Snapshot],
    /// The last is the host.
    pub devices: &'a [Device],
    pub order: Order,
    /// The rule by which intermediates are placed.
    pub rule: CapturedRule,
    /// There are several devices, and all have events.
    pub has_events: bool,
    /// Whether operations on batches may be on a device if their weights are on the host.
    pub op_offload: bool,
}

impl Planner<'_> {
    /// Returns the host.
    pub fn host(&self) -> usize {
        self.devices.len() - 1
    }

    /// Returns the best plan, and whether operations on weights of the host may be on devices: their copies there may be
    /// what does not fit.
    pub fn plan(&self, found: &CapturedItems, whole_layers: bool) -> Result<(OffloadPlan, bool), NotPlaced> {
        match self.plan_with(found, whole_layers, self.op_offload) {
            Err(NotPlaced::Infeasible(_)) if self.op_offload => {
                self.plan_with(found, whole_layers, false).map(|plan| (plan, false))
            }
            placed => placed.map(|plan| (plan, self.op_offload)),
        }
    }

    /// Returns the best plan with these copies or without.
    pub fn plan_with(
        &self,
        found: &CapturedItems,
        whole_layers: bool,
        op_offload: bool,
    ) -> Result<OffloadPlan, NotPlaced> {
        let request = Request { order: self.order, ..Request::new(self.devices, &found.items) };
        best_variant(&request, whole_layers, &mut self.compute(found, op_offload))
    }

    /// Returns what measures compute buffers.
    pub fn compute<'s>(&'s self, found: &'s CapturedItems, op_offload: bool) -> CapturedCompute<'s> {
        let rule = match self.rule {
            CapturedRule::Scheduler(options) => CapturedRule::Scheduler(SchedulerOptions { op_offload, ..options }),
            other => other,
        };
        CapturedCompute::new(self.snapshots, found, self.devices, rule).with_pipelines(self.has_events)
    }
}
