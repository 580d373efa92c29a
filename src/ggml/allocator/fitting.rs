//! Graphs that the plan of another graph fits, and plans within the memory held for those that none fits, or only that
//! of a much larger graph.

use crate::ggml::live::tensor::GraphRef;
use crate::ggml::read::requested::Requested;
use crate::ggml::refusal::Refusal;
use crate::ggml::retention::RetainedAt;

use super::Allocator;
use super::activity::Decision;
use super::assign::assign_fitting;
use super::outputs::{check_outputs, note_checked_outputs};
use super::plan_cache::CloseFit;
use super::plan_cache::cached_plan::{CachedPlan, kept_leafs};
use super::plan_cache::fit::FittedGraph;
use super::planning::Kept;

impl Allocator {
    /// Assigns memory to a graph that no cached plan was made for, but one fits: by that plan, or by a new one if
    /// it is much smaller. `None` if no plan fits.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(super) fn allocate_fitting(
        &mut self,
        graph: GraphRef<'_>,
        retained: &[RetainedAt],
    ) -> Result<Option<Decision>, Refusal> {
        let (runtime, types) = (self.runtime, self.types.types());
        let fitted = match self.plans.select_close(runtime, types, graph, retained) {
            CloseFit::Selected(fitted) => fitted,
            CloseFit::OnlyLarger { is_from_peak } => {
                let is_worth_planning = is_from_peak && self.is_worth_planning();
                if is_worth_planning && self.add_plan_if_held(graph, Requested::default(), retained)? {
                    return self.assign_new_plan(graph).map(Some);
                }
                let fitting = self.plans.select_fitting(runtime, self.types.types(), graph, retained);
                let Some(fitted) = fitting else { return Ok(None) };
                fitted
            }
            CloseFit::None => return Ok(None),
        };
        self.assign_fitting(graph, &fitted).map(Some)
    }

    /// Assigns memory to a graph by the plan in use, which fits it.
    fn assign_fitting(&mut self, graph: GraphRef<'_>, fitted: &FittedGraph<'_>) -> Result<Decision, Refusal> {
        self.ensure_chunks()?;
        let plan = self.plans.current_mut().ok_or(Refusal::NeedsReserve)?;
        check_outputs(self.runtime, self.types.types(), graph, &plan.requested)?;
        note_checked_outputs(self.runtime, graph, plan);
        let fingerprint = self.types.fingerprint(self.runtime, graph);
        plan.note_served(fitted.unassigned, fingerprint);
        assign_fitting(self.runtime, &self.chunks, plan, fitted).map(|()| Decision::Fits)
    }

    /// Returns `true` if a separate plan is worth the time for a graph that a plan for a much larger one may fit. At
    /// the offsets of the larger graph, small tensors are spread over memory: more pages are touched, and fewer bytes
    /// are found in caches. Devices other than the CPU hold all of their buffers anyway. Where placing the larger graph
    /// took many strategies, placing this one takes longer than is gained.
    fn is_worth_planning(&self) -> bool {
        matches!(self.types.types(), [buffer_type] if buffer_type.is_host()) && self.plans.have_room_for_expendable()
    }

    /// Plans a graph. Remembers the plan until others need its place. Returns `false` if it needs more memory than is held,
    /// or may not follow the plan in use.
    pub(super) fn add_plan_if_held(
        &mut self,
        graph: GraphRef<'_>,
        requested: Requested,
        retained: &[RetainedAt],
    ) -> Result<bool, Refusal> {
        // In the plan of a larger graph, inputs may be intact that are not in ggml's own plan of this one.
        let kept = if requested.is_listed() { Kept::AsGgml } else { Kept::All };
        let (reading, plan) = self.read_and_plan(graph, &requested, retained, kept)?;
        let may_follow = |current: &CachedPlan| current.may_be_followed_by(&kept_leafs(&reading.graph, &plan));
        let is_good = self.chunks.suffice(&plan.buffers) && self.plans.current().is_none_or(may_follow);
        let is_reserved_next = !is_good && requested.is_listed();
        if is_good || is_reserved_next {
            self.remember(graph, reading, plan, requested, retained.to_vec());
            self.plans.make_current_expendable();
        }
        if is_reserved_next {
            self.plans.keep_for_reservation();
        }
        Ok(is_good)
    }
}
