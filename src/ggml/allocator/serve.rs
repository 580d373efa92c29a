//! Decides which plan serves a graph: a cached one, or a new one; and keeps the chunks of memory large enough for it.

use std::time::Instant;

use crate::ggml::context::PendingTensors;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::observe::capture::captures;
use crate::ggml::observe::verify::Verifier;
use crate::ggml::read::{ReadGraph, Requested};
use crate::ggml::refusal::Refusal;
use crate::ggml::retention::{RetainedAt, retain_at};
use crate::graph::{BufferPlan, GraphPlan, Kept, PlanError, TensorId};

use super::Allocator;
use super::activity::{Decision, Need, buffer_states};
use super::plan_cache::cached_plan::{CachedPlan, kept_leafs};
use super::plan_cache::fit::{FittedGraph, PlanWithRoom, has_room_by_position};
use super::plan_cache::{Fit, Limits};

impl Allocator {
    /// Selects the plan for a graph that is reserved, and allocates its chunks.
    pub(super) fn serve_reservation(
        &mut self,
        graph: GraphRef<'_>,
        node_ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<Decision, Refusal> {
        let requested = self.planner.types.requested(graph, node_ids, leaf_ids);
        self.planner.types.pending(graph, &requested)?.realize()?;
        let retained = self.planner.retention.current().positions(graph);
        let fingerprint = || self.planner.fingerprint(graph);
        let decision = if self.plans.select_requested(fingerprint, graph, &requested, &retained) {
            self.check_outputs_again(graph)?;
            Decision::Remembered
        } else {
            self.add_plan(graph, requested, retained)?;
            Decision::Planned
        };
        self.allocate_chunks(true).map(|()| decision)
    }

    /// Selects the plan for a graph that is allocated, and assigns its tensors their addresses.
    pub(super) fn serve(&mut self, graph: GraphRef<'_>) -> Result<Decision, Refusal> {
        self.realize(&PendingTensors::among_listed(graph))?;
        let retained = self.planner.retention.current().positions(graph);
        if !self.plans.is_empty() {
            let fingerprint = || self.planner.fingerprint(graph);
            if self.plans.select_known(fingerprint, graph, &retained) {
                self.check_outputs_again(graph)?;
                self.ensure_chunks()?;
                if let Some(done) = self.assign_by_position(graph) {
                    return done.map(|()| Decision::Matches);
                }
            }
            self.realize(&PendingTensors::in_graph(graph))?;
            if let Some(done) = self.serve_by_fitting(graph, &retained)? {
                return Ok(done);
            }
        }
        if self.planner.types.buffer_of_id.len() == 1 {
            self.realize(&PendingTensors::in_graph(graph))?;
            self.add_plan(graph, Requested::default(), retained)?;
            return self.assign_new_plan(graph);
        }
        if let Some(requested) = self.requested_last(graph) {
            self.realize(&PendingTensors::in_graph(graph))?;
            if self.add_plan_if_held(graph, requested, &retained)? {
                return self.assign_new_plan(graph);
            }
        }
        let is_empty = self.plans.is_empty() && graph.leafs.is_empty() && graph.nodes.is_empty();
        if is_empty { Ok(Decision::Empty) } else { Err(Refusal::NeedsReserve) }
    }

    /// Assigns memory to a graph that no cached plan was made for, but one fits: by that plan, or by a new one if
    /// it is much smaller. `None` if no plan fits.
    fn serve_by_fitting(&mut self, graph: GraphRef<'_>, retained: &[RetainedAt]) -> Result<Option<Decision>, Refusal> {
        let (runtime, types) = (self.planner.runtime, &self.planner.types.list);
        let held = self.chunks.demand.is_deferred.then_some(&self.chunks);
        let mut fit = self.plans.select_fitting(runtime, types, graph, retained, Limits { may_be_larger: false, held });
        if let Fit::OnlyLarger { is_from_peak } = fit {
            let is_worth_planning = is_from_peak && self.is_worth_planning();
            if is_worth_planning
                && let Some(requested) = self.requested_last(graph)
                && self.add_plan_if_held(graph, requested, retained)?
            {
                return self.assign_new_plan(graph).map(Some);
            }
            let held = self.chunks.demand.is_deferred.then_some(&self.chunks);
            let limits = Limits { may_be_larger: true, held };
            fit = self.plans.select_fitting(runtime, &self.planner.types.list, graph, retained, limits);
        }
        match fit {
            Fit::Selected(fitted) => self.assign_fitting(graph, &fitted).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns `true` if a separate plan is worth the time for a graph that a plan for a much larger one may fit. At
    /// the offsets of the larger graph, small tensors are spread over memory: more pages are touched, and fewer bytes
    /// are found in caches. Devices other than the CPU hold all of their buffers anyway, unless that depends on what graphs
    /// need. Where placing the larger graph
    /// took many strategies, placing this one takes longer than is gained.
    fn is_worth_planning(&self) -> bool {
        let is_host = matches!(self.planner.types.list.as_slice(), [buffer_type] if buffer_type.is_host());
        (is_host || self.chunks.demand.is_deferred) && self.plans.has_room_for_expendable()
    }

    /// Returns the buffers of the latest reservation, by position, if `graph` has room in the places of the plan in
    /// use; or of another one for the same buffers, where reservations take no memory.
    fn requested_last(&self, graph: GraphRef<'_>) -> Option<Requested> {
        let current = self.plans.current()?;
        let types = &self.planner.types.list;
        let has_room = |plan: &CachedPlan| has_room_by_position(plan, types, graph);
        let mut others = self.plans.requested_as_current().filter(|_| self.chunks.demand.is_deferred);
        (types.len() == 1 || has_room(current) || others.any(has_room)).then(|| current.requested.clone())
    }

    /// Lets contexts allocate their pending tensors. With several buffers only a reservation states where the graph
    /// expects them.
    fn realize(&self, pending: &PendingTensors<'_>) -> Result<(), Refusal> {
        let is_single = self.planner.types.list.len() == 1;
        if pending.is_empty() || is_single { pending.realize() } else { Err(Refusal::NeedsReserve) }
    }

    /// Checks the redirected results of a graph that the plan in use serves, if they may have changed.
    fn check_outputs_again(&mut self, graph: GraphRef<'_>) -> Result<(), Refusal> {
        let runtime = self.planner.runtime;
        if let Some(plan) = self.plans.current_mut()
            && plan.must_check_outputs(runtime, graph)
        {
            self.planner.check_outputs(graph, &plan.requested)?;
            plan.note_checked_outputs(runtime, graph);
        }
        Ok(())
    }

    /// Plans `graph` and caches the plan, which is then in use and keeps the tensors `retained`.
    fn add_plan(
        &mut self,
        graph: GraphRef<'_>,
        requested: Requested,
        retained: Vec<RetainedAt>,
    ) -> Result<(), Refusal> {
        let (reading, plan) = self.read_and_plan(graph, &requested, &retained, Kept::AsGgml)?;
        self.cache(graph, reading, plan, requested, retained);
        Ok(())
    }

    /// Plans a graph. Caches the plan until others need its place. Returns `false` if it needs more memory than is
    /// held, or may not follow the plan in use.
    fn add_plan_if_held(
        &mut self,
        graph: GraphRef<'_>,
        requested: Requested,
        retained: &[RetainedAt],
    ) -> Result<bool, Refusal> {
        // In the plan of a larger graph, inputs may be intact that are not in ggml's own plan of this one.
        let kept = if requested.is_listed() { Kept::AsGgml } else { Kept::All };
        let (reading, plan) = self.read_and_plan(graph, &requested, retained, kept)?;
        let may_follow = |current: &CachedPlan| current.may_be_followed_by(&kept_leafs(&reading.graph, &plan));
        let may_take = self.chunks.demand.is_idle || self.chunks.are_shared();
        let may_be_taken = may_take || self.chunks.suffice(&plan.buffers);
        let is_good = may_be_taken && self.plans.current().is_none_or(may_follow);
        let is_reserved_next = !is_good && requested.is_listed();
        if is_good || is_reserved_next {
            self.cache(graph, reading, plan, requested, retained.to_vec()).is_expendable = true;
        }
        if is_reserved_next {
            // A reservation of the graph finds it.
            self.plans.keep_previous();
        }
        Ok(is_good)
    }

    /// Reads and plans `graph`, whose tensors `retained` are kept.
    fn read_and_plan<'g>(
        &mut self,
        graph: GraphRef<'g>,
        requested: &Requested,
        retained: &[RetainedAt],
        kept: Kept,
    ) -> Result<(ReadGraph<'g>, GraphPlan), Refusal> {
        let start = Instant::now();
        let is_reported = captures().is_enabled() || self.activity.are_events_requested();
        let mut reading = self.planner.read(graph, requested, is_reported);
        retain_at(retained, &mut reading.graph);
        if !reading.redirected.is_empty() {
            self.planner.check_outputs(graph, requested)?;
        }
        let planned = self.plan(&reading, requested, start, kept);
        let plan = planned.inspect_err(|_| self.clear_plans())?;
        Ok((reading, plan))
    }

    /// Plans `reading`, and captures it if captures are enabled. Planning time counts from `start`, before the graph
    /// was read.
    pub(super) fn plan(
        &mut self,
        reading: &ReadGraph<'_>,
        requested: &Requested,
        start: Instant,
        kept: Kept,
    ) -> Result<GraphPlan, Refusal> {
        let planned = self.planner.plan(reading, requested, kept);
        self.activity.count_planning(start.elapsed());
        if captures().is_enabled() {
            captures().capture(self.planner.subject(reading, &requested.of_all(&reading.graph)));
        }
        planned.map_err(|PlanError::TooLarge { buffer, bytes }| {
            self.required[buffer as usize] = Need { size: bytes, lower_bound: bytes };
            Refusal::NoMemory { buffer: self.planner.types.list[buffer as usize].name(), size: bytes }
        })
    }

    /// Caches the plan of `graph`, which is then in use, reports it, and returns it.
    fn cache(
        &mut self,
        graph: GraphRef<'_>,
        reading: ReadGraph<'_>,
        mut plan: GraphPlan,
        requested: Requested,
        retained: Vec<RetainedAt>,
    ) -> &mut CachedPlan {
        let is_compared = self.activity.are_events_requested();
        let by_ggml = is_compared.then(|| self.ggml_alloc_sizes(graph, &reading, &requested));
        self.activity.note_plan(&plan, by_ggml.flatten().as_deref());
        self.activity.note_graph(&reading);
        self.activity.account_plan(&self.planner.types.list, &reading, &requested, &plan);
        self.plans.make_room(|plan| plan.leave_to(&mut self.planner.workspace));
        let are_nodes_listed_once = reading.graph.nodes().windows(2).all(|pair| pair[0] + 1 == pair[1]);
        let is_exact = !self.planner.types.are_sizes_by_layout() || !are_nodes_listed_once;
        let exact = is_exact.then(|| self.planner.fingerprint(graph));
        let is_redirecting = !reading.redirected.is_empty();
        self.planner.workspace.reuse_problems(&mut plan);
        let plan = self.plans.add(CachedPlan::new(reading, plan, requested, retained, exact));
        if is_redirecting {
            plan.note_checked_outputs(self.planner.runtime, graph);
        }
        plan
    }

    /// Removes all plans, whose lists serve the next ones.
    pub(super) fn clear_plans(&mut self) {
        self.plans.drain().for_each(|plan| plan.leave_to(&mut self.planner.workspace));
    }

    /// Allocates chunks for a selected plan where those held are too small, if they may be taken: several
    /// buffers are taken by reservations only, except for the first graph after one that took none, and in an arena, where
    /// what computes in the chunks ends before they are replaced.
    fn ensure_chunks(&mut self) -> Result<(), Refusal> {
        let Self { plans, chunks, planner, .. } = self;
        let may_take = planner.types.buffer_of_id.len() == 1 || chunks.demand.is_idle || chunks.are_shared();
        match plans.current() {
            Some(plan) if chunks.suffice(plan.buffers()) => Ok(()),
            Some(_) if may_take => self.allocate_chunks(false),
            _ => Err(Refusal::NeedsReserve),
        }
    }

    /// Allocates the chunks of the plan in use, unless a reservation leaves that to the graph that is allocated next, and
    /// reports what has changed. All plans are dropped if that fails.
    fn allocate_chunks(&mut self, is_reservation: bool) -> Result<(), Refusal> {
        let counts = self.plans.current().map(|plan| [plan.graph.leafs().len(), plan.graph.nodes().len()]);
        let Self { planner, plans, chunks, required, verifier, activity, .. } = self;
        let done = plans.current().map_or(Ok(()), |plan| {
            note_required(required, plan.buffers());
            chunks.grow(&planner.types.list, plan.buffers(), is_reservation, || {
                verifier.iter_mut().for_each(Verifier::forget)
            })
        });
        if done.is_err() {
            plans.drain().for_each(|plan| plan.leave_to(&mut planner.workspace));
        }
        // What a reservation leaves to the next graph is not there to be accounted for.
        let is_there = done.is_ok() && plans.current().is_none_or(|plan| chunks.suffice(plan.buffers()));
        activity.account_chunks(is_there.then_some(&*chunks));
        activity.note_buffers(chunks.total(), counts, || buffer_states(&planner.types, chunks, required));
        done
    }

    /// Reports a graph that was allocated in an arena, and the bytes that the allocator answers for, which others have changed.
    pub(super) fn note_shared_chunks(&mut self) {
        let Self { planner, plans, chunks, required, activity, .. } = self;
        let needed = plans.current().map_or(&[][..], CachedPlan::buffers).iter().map(|plan| plan.placement.size());
        activity.note_turn(needed.sum());
        let counts = plans.current().map(|plan| [plan.graph.leafs().len(), plan.graph.nodes().len()]);
        activity.note_buffers(chunks.total(), counts, || buffer_states(&planner.types, chunks, required));
    }

    /// Assigns memory to a graph that the plan in use serves, in the order of its lists. `None` if a tensor that may need
    /// memory is in neither.
    fn assign_by_position(&self, graph: GraphRef<'_>) -> Option<Result<(), Refusal>> {
        let plan = self.plans.current()?;
        Some(self.assign(plan, plan.assignments().placed(), plan.tensors_of(graph)?))
    }

    /// Assigns memory to the tensors that `tensor` returns by id; `unassigned` of them need memory of the plan.
    fn assign<'g>(
        &self,
        plan: &CachedPlan,
        unassigned: usize,
        tensor: impl Fn(TensorId) -> Option<TensorRef<'g>>,
    ) -> Result<(), Refusal> {
        // The plan has checked only that tensors lie in the chunks that it asked for.
        if !self.chunks.suffice(plan.buffers()) {
            return Err(Refusal::NeedsReserve);
        }
        plan.assignments().assign(self.planner.runtime, &self.chunks, unassigned, tensor)
    }

    /// Allocates the chunks of the plan in use, which was just made for `graph`, and assigns memory to its tensors.
    fn assign_new_plan(&mut self, graph: GraphRef<'_>) -> Result<Decision, Refusal> {
        self.allocate_chunks(false)?;
        let done = self.assign_by_position(graph).unwrap_or_else(|| self.assign_planned(graph));
        done.map(|()| Decision::Planned)
    }

    /// Assigns memory to the graph that the plan in use was made for.
    fn assign_planned(&self, graph: GraphRef<'_>) -> Result<(), Refusal> {
        let plan = self.plans.current().ok_or(Refusal::NeedsReserve)?;
        let candidate = PlanWithRoom::new(plan, &self.planner.types.list, graph);
        let fitted =
            candidate.and_then(|candidate| candidate.fit(self.planner.runtime)).ok_or(Refusal::NeedsReserve)?;
        self.assign(plan, fitted.unassigned, |id| fitted.tensors[id as usize])
    }

    /// Assigns memory to a graph by the plan in use, which fits it.
    fn assign_fitting(&mut self, graph: GraphRef<'_>, fitted: &FittedGraph<'_>) -> Result<Decision, Refusal> {
        self.ensure_chunks()?;
        let (runtime, fingerprint) = (self.planner.runtime, self.planner.fingerprint(graph));
        let plan = self.plans.current_mut().ok_or(Refusal::NeedsReserve)?;
        self.planner.check_outputs(graph, &plan.requested)?;
        plan.note_checked_outputs(runtime, graph);
        plan.note_served(fitted.unassigned, fingerprint);
        let plan = self.plans.current().ok_or(Refusal::NeedsReserve)?;
        self.assign(plan, fitted.unassigned, |id| fitted.tensors[id as usize]).map(|()| Decision::Fits)
    }
}

/// Notes the requirements of a plan by buffer.
pub fn note_required(required: &mut [Need], plans: &[BufferPlan]) {
    for (required, plan) in required.iter_mut().zip(plans) {
        *required = Need { size: plan.placement.size(), lower_bound: plan.lower_bound };
    }
}
