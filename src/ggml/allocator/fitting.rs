//! Graphs that the plan of another graph fits. Those that are much smaller may get a plan of their own.

use crate::ggml::live::tensor::GraphRef;
use crate::ggml::read::fingerprint::Fingerprint;
use crate::ggml::read::requested::Requested;
use crate::ggml::refusal::Refusal;
use crate::ggml::retention::RetainedAt;
use crate::graph::BufferPlan;

use super::Allocator;
use super::activity::Decision;
use super::assign::assign_fitting;
use super::outputs::{check_outputs, note_checked_outputs};
use super::remembered::fit::FittedGraph;

impl Allocator {
    /// Assigns memory to a graph that the plan in use fits: by that plan, or by one of its own if it is much smaller.
    pub(super) fn allocate_fitting(
        &mut self,
        graph: GraphRef<'_>,
        fitted: &FittedGraph<'_>,
        retained: Vec<RetainedAt>,
    ) -> Result<Decision, Refusal> {
        self.ensure_chunks()?;
        if self.is_worth_planning(fitted) && self.add_smaller_plan(graph, retained)? {
            return self.assign_new_plan(graph);
        }
        let plan = self.plans.current_mut().ok_or(Refusal::NeedsReserve)?;
        check_outputs(self.runtime, self.types.types(), graph, &plan.requested)?;
        note_checked_outputs(self.runtime, graph, plan);
        let fingerprint = Fingerprint::of(&self.runtime.operations, graph);
        plan.note_served(fitted.unassigned, fingerprint);
        assign_fitting(self.runtime, &self.chunks, plan, fitted).map(|()| Decision::Fits)
    }

    /// Returns `true` if a plan of its own is worth the time for a graph that the plan in use fits. At the offsets of a
    /// larger graph, small tensors are spread over memory: more pages are touched, and fewer bytes are found in caches.
    /// Devices other than the CPU hold all of their buffers anyway. Where placing the larger graph took many strategies,
    /// placing this one takes longer than is gained.
    fn is_worth_planning(&self, fitted: &FittedGraph<'_>) -> bool {
        let ([buffer_type], Some(plan)) = (self.types.types(), self.plans.current()) else { return false };
        fitted.is_much_smaller()
            && buffer_type.is_host()
            && plan.buffers().iter().all(BufferPlan::is_from_peak)
            && self.plans.have_room_for_expendable()
    }

    /// Plans a graph that the plan in use fits. Remembers the plan, unless it needs more memory than is held: returns
    /// `false` then.
    fn add_smaller_plan(&mut self, graph: GraphRef<'_>, retained: Vec<RetainedAt>) -> Result<bool, Refusal> {
        let requested = Requested::default();
        let (reading, plan) = self.read_and_plan(graph, &requested, &retained)?;
        let is_held = self.chunks.suffice(&plan.buffers);
        if is_held {
            self.remember(graph, reading, plan, requested, retained);
            self.plans.make_current_expendable();
        }
        Ok(is_held)
    }
}
