//! The graph allocator behind `ggml_gallocr_t`: plans a graph, allocates the buffers, and assigns the tensors their
//! addresses.
//!
//! `ggml_gallocr_reserve_n` calls [`Allocator::reserve`], `ggml_gallocr_alloc_graph` calls [`Allocator::allocate`].
//! Both first search the [`remembered`] plans for one that serves the graph. A much smaller graph may get its own plan
//! ([`fitting`]). Otherwise the graph is read ([`crate::ggml::read`]) with the tensors to retain ([`retention`]), its
//! redirected results are checked ([`outputs`]), it is planned ([`planning`]), the plan is remembered, and [`chunks`] are allocated. [`assign`] writes addresses into
//! tensors, [`activity`] reports the work, and [`accounted`] the plan to the accounting of the process. [`direct_use`]
//! finds out whether a scheduler uses it. Before all that, [`reordering`] puts the nodes into another order, and
//! [`tiling`] has large intermediates computed in tiles, where the program's user asks for it.

mod tag;
mod types;
mod direct_use;
mod retention;
mod kernels;
mod chunks;
mod plan_cache;
mod known_orders;
mod reordering;
mod tiling;
mod outputs;
mod assign;
mod activity;
mod planning;
mod fitting;
mod accounted;
mod inspect;
mod dedicate;
pub mod measure;

use std::ptr::NonNull;
use std::time::Instant;

use crate::ggml::context::PendingTensors;
use crate::ggml::dedicated::DedicatedBuffers;
use crate::ggml::environment::Switch;
use crate::ggml::linking::original::ggml_gallocr;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::observe::capture::captures;
use crate::ggml::observe::events::Events;
use crate::ggml::observe::statistics::totals;
use crate::ggml::observe::verify::{Verifier, Violation};
use crate::ggml::process::settings::{Settings, settings};
use crate::ggml::read::requested::Requested;
use crate::ggml::read::workspace::Workspace;
use crate::ggml::read::{read, read_for_planning};
use crate::ggml::refusal::Refusal;
use crate::graph::{BufferPlan, RuleSetting};
use crate::placement::{Bytes, Effort};
use accounted::AccountedPlan;
use activity::{Activity, Decision, Required, buffer_states};
use assign::{assign_by_position, assign_fitting};
use chunks::Chunks;
use known_orders::KnownOrders;
use outputs::check_outputs_again;
use plan_cache::PlanCache;
use plan_cache::fit::{PlanWithRoom, has_room_by_position};
use planning::Kept;
use retention::AllocatorRetention;
use tag::Tag;
use tiling::Tilings;
use types::BufferTypes;

/// The target of a `ggml_gallocr_t`. The tag is the first field in memory too.
///
/// One thread at a time may use it; it can move between threads.
#[derive(Debug)]
#[repr(C)]
pub struct Allocator {
    tag: Tag,
    runtime: &'static Runtime,
    types: BufferTypes,
    chunks: Chunks,
    /// After the chunks, which are freed first.
    accounted: AccountedPlan,
    /// Requirements of the latest plan for each buffer.
    required: Vec<Required>,
    plans: PlanCache,
    /// Whether graphs get a better order, and those that were found.
    reorders: Switch,
    orders: KnownOrders,
    tilings: Tilings,
    retention: AllocatorRetention,
    activity: Activity,
    verifier: Verifier,
    dedicated: DedicatedBuffers,
    workspace: Box<Workspace>,
}

impl Drop for Allocator {
    fn drop(&mut self) {
        self.plans.clear(&mut self.workspace);
        std::mem::take(&mut self.workspace).leave();
    }
}

impl Allocator {
    /// Creates an allocator without memory; buffer id `i` refers to `types[i]`. `events` is the report that it is
    /// written to.
    pub fn new(runtime: &'static Runtime, events: Option<&'static Events>, types: &[BufferType]) -> Self {
        Self::with(runtime, types, |buffers| Activity::new(runtime, events, buffers))
    }

    /// Creates an allocator for one measurement, which is not counted in the statistics.
    pub fn for_measuring(runtime: &'static Runtime, types: &[BufferType]) -> Self {
        Self::with(runtime, types, |buffers| Activity::unreported(runtime, buffers))
    }

    fn with(runtime: &'static Runtime, types: &[BufferType], activity: impl FnOnce(usize) -> Activity) -> Self {
        let settings: Settings = settings();
        let types = BufferTypes::new(types, &settings);
        let buffers = types.types().len();
        let activity = activity(buffers);
        Self {
            tag: Tag::new(),
            runtime,
            types,
            chunks: Chunks::none(buffers),
            accounted: AccountedPlan::new(activity.number()),
            required: vec![Required::default(); buffers],
            plans: PlanCache::none(),
            reorders: settings.reorder,
            orders: KnownOrders::default(),
            tilings: Tilings::new(settings.budget),
            retention: AllocatorRetention::new(),
            activity,
            verifier: Verifier::new(settings.verify),
            dedicated: DedicatedBuffers::default(),
            workspace: Workspace::of_new_allocator(),
        }
    }

    /// Returns `galloc` as an allocator of lastuse; `None` if it is one of ggml's own.
    ///
    /// # Safety
    /// `galloc` points to a live allocator.
    pub unsafe fn from_c(galloc: NonNull<ggml_gallocr>) -> Option<NonNull<Self>> {
        const { assert!(std::mem::offset_of!(Self, tag) == 0, "it tells allocators of lastuse from ggml's own") };
        // SAFETY: both kinds of allocators begin with a word.
        let word = unsafe { galloc.cast::<usize>().read() };
        Tag::is_tag(word).then(|| galloc.cast())
    }

    /// Sets the in-place and aliasing rules for future plans; cached plans are dropped.
    pub fn set_rules(&mut self, setting: &RuleSetting) {
        self.types.set_rules(setting);
        self.plans.clear(&mut self.workspace);
        self.tilings.clear();
    }

    /// Sets how much work placing may take in future plans; cached plans are dropped.
    pub fn set_effort(&mut self, effort: Effort) {
        self.types.set_effort(effort);
        self.plans.clear(&mut self.workspace);
        self.tilings.clear();
    }

    /// The number of plans that this process has made.
    pub fn plan_count() -> u64 {
        totals().plans
    }

    /// The ggml that its graphs and buffers belong to.
    pub fn runtime(&self) -> &'static Runtime {
        self.runtime
    }

    /// Plans `graph`, unless a cached plan was made for it, and allocates the buffers; the graph itself is not
    /// changed. `None` for the ids means 0.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`]; the allocator then holds no plan and can be used again. [`Refusal::NotRealized`] or
    /// [`Refusal::InitFailed`] when a context cannot allocate its tensors.
    pub fn reserve(
        &mut self,
        graph: GraphRef<'_>,
        node_ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<(), Refusal> {
        let clock = self.activity.clock();
        let done = self.decide_reserve(graph, node_ids, leaf_ids);
        self.activity.note_decision("reserve", clock, graph, &done);
        done.map(|_| ())
    }

    fn decide_reserve(
        &mut self,
        graph: GraphRef<'_>,
        node_ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<Decision, Refusal> {
        let requested = self.types.requested(graph, node_ids, leaf_ids);
        self.types.pending(graph, &requested)?.realize()?;
        let retained = self.retention.current().positions(graph);
        let fingerprint = || self.types.fingerprint(self.runtime, graph);
        let decision = if self.plans.select_requested(fingerprint, graph, &requested, &retained) {
            self.check_outputs_again(graph)?;
            Decision::Remembered
        } else {
            self.add_plan(graph, requested, retained)?;
            Decision::Planned
        };
        self.allocate_chunks().map(|()| decision)
    }

    /// Plans `graph` and returns the bytes by id; neither the graph nor the chunks nor the plan in use are changed.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`] when sizes overflow.
    pub fn measure(
        &mut self,
        graph: GraphRef<'_>,
        node_ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<Vec<Bytes>, Refusal> {
        let requested = self.types.requested(graph, node_ids, leaf_ids);
        let start = Instant::now();
        let Self { runtime, types, workspace, .. } = self;
        let mut reading = if captures().is_enabled() {
            read(runtime, types.types(), graph, &requested)
        } else {
            read_for_planning(runtime, types.types(), graph, &requested, workspace)
        };
        self.retention.current().retain_in(&mut reading.graph, graph);
        let plan = self.plan(&reading, &requested, start, Kept::AsGgml)?;
        reading.leave_to(&mut self.workspace);
        let measured = self.note_measured(&plan.buffers);
        self.workspace.reuse_plan(plan);
        Ok(measured)
    }

    /// Assigns memory to every tensor of `graph`. With one buffer, a graph that was not reserved is reserved now. With
    /// several, it is planned for the buffers of the latest reservation, if it needs no more memory than is held.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn allocate(&mut self, graph: GraphRef<'_>) -> Result<(), Refusal> {
        let clock = self.activity.clock();
        let done = self.decide_allocate(graph);
        self.activity.note_decision("allocate", clock, graph, &done);
        done.map(|_| ())
    }

    fn decide_allocate(&mut self, graph: GraphRef<'_>) -> Result<Decision, Refusal> {
        self.realize(&PendingTensors::among_listed(graph))?;
        let retained = self.retention.current().positions(graph);
        if !self.plans.is_empty() {
            let fingerprint = || self.types.fingerprint(self.runtime, graph);
            if self.plans.select_known(fingerprint, graph, &retained) {
                self.check_outputs_again(graph)?;
                self.ensure_chunks()?;
                if let Some(done) = self.assign_by_position(graph) {
                    return done.map(|()| Decision::Matches);
                }
            }
            self.realize(&PendingTensors::in_graph(graph))?;
            if let Some(done) = self.allocate_fitting(graph, &retained)? {
                return Ok(done);
            }
        }
        if self.types.id_count() == 1 {
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

    /// Returns the buffers of the latest reservation, by position, if `graph` has room in the places of the plan in use.
    fn requested_last(&self, graph: GraphRef<'_>) -> Option<Requested> {
        let current = self.plans.current()?;
        let types = self.types.types();
        (types.len() == 1 || has_room_by_position(current, types, graph)).then(|| current.requested.clone())
    }

    /// Verifies the addresses assigned to `graph`, if enabled: simulates the graph and informs the guards.
    ///
    /// # Errors
    /// [`Violation`] if a value would be lost.
    pub fn verify(&mut self, graph: GraphRef<'_>) -> Result<(), Violation> {
        let Self { runtime, verifier, chunks, retention, activity, .. } = self;
        let is_verified =
            verifier.verify(runtime, graph, retention.current(), |buffer| chunks.contains(buffer.as_ptr()))?;
        if is_verified {
            activity.note_verified();
        }
        Ok(())
    }

    /// Lets contexts allocate their pending tensors. With several buffers only a reservation states where the graph
    /// expects them.
    fn realize(&self, pending: &PendingTensors<'_>) -> Result<(), Refusal> {
        let is_single = self.types.types().len() == 1;
        if pending.is_empty() || is_single { pending.realize() } else { Err(Refusal::NeedsReserve) }
    }

    /// Allocates chunks for a selected plan where those held are too small. With several buffers only a reservation
    /// does that.
    fn ensure_chunks(&mut self) -> Result<(), Refusal> {
        match self.plans.current() {
            Some(plan) if self.chunks.suffice(plan.buffers()) => Ok(()),
            Some(_) if self.types.id_count() == 1 => self.allocate_chunks(),
            _ => Err(Refusal::NeedsReserve),
        }
    }

    /// Allocates the chunks of the plan in use and reports what has changed. All plans are dropped if that fails.
    fn allocate_chunks(&mut self) -> Result<(), Refusal> {
        let counts = self.plans.current().map(|plan| [plan.graph.leafs().len(), plan.graph.nodes().len()]);
        let done = self.grow_chunks();
        match &done {
            Ok(()) => self.accounted.tell(&self.chunks),
            Err(_) => self.accounted.forget(),
        }
        let Self { types, chunks, required, .. } = self;
        self.activity.note_buffers(chunks.total(), counts, || buffer_states(types, chunks, required));
        done
    }

    fn grow_chunks(&mut self) -> Result<(), Refusal> {
        let Some(plan) = self.plans.current() else { return Ok(()) };
        note_required(&mut self.required, plan.buffers());
        for (buffer, &buffer_type) in self.types.types().iter().enumerate() {
            let Some(plan) = self.plans.current() else { return Ok(()) };
            let sizes = &plan.buffers()[buffer].placement.chunks;
            if !self.chunks.suffice_for(buffer, sizes) {
                self.verifier.forget();
                let done = self.chunks.replace(buffer, buffer_type, sizes);
                done.inspect_err(|_| self.plans.clear(&mut self.workspace))?;
            }
        }
        Ok(())
    }

    /// Notes the requirements of a plan that was made only to measure them. Returns the bytes by id.
    fn note_measured(&mut self, plans: &[BufferPlan]) -> Vec<Bytes> {
        note_required(&mut self.required, plans);
        self.types.buffer_of_id().iter().map(|&buffer| self.required[buffer as usize].size).collect()
    }

    /// Assigns memory to a graph that the plan in use serves, tensor by tensor as they are listed. `None` if some are
    /// in no list.
    fn assign_by_position(&self, graph: GraphRef<'_>) -> Option<Result<(), Refusal>> {
        assign_by_position(self.runtime, &self.chunks, self.plans.current()?, graph)
    }

    /// Allocates the chunks of the plan in use, which was just made for `graph`, and assigns memory to its tensors.
    fn assign_new_plan(&mut self, graph: GraphRef<'_>) -> Result<Decision, Refusal> {
        self.allocate_chunks()?;
        let done = self.assign_by_position(graph).unwrap_or_else(|| self.assign_planned(graph));
        done.map(|()| Decision::Planned)
    }

    /// Assigns memory to the graph that the plan in use was made for.
    fn assign_planned(&self, graph: GraphRef<'_>) -> Result<(), Refusal> {
        let plan = self.plans.current().ok_or(Refusal::NeedsReserve)?;
        let fitted =
            PlanWithRoom::new(plan, self.types.types(), graph).and_then(|candidate| candidate.fit(self.runtime));
        assign_fitting(self.runtime, &self.chunks, plan, &fitted.ok_or(Refusal::NeedsReserve)?)
    }

    /// Checks the redirected results of a graph that the plan in use serves, if they may have changed.
    fn check_outputs_again(&mut self, graph: GraphRef<'_>) -> Result<(), Refusal> {
        let plan = self.plans.current_mut();
        plan.map_or(Ok(()), |plan| check_outputs_again(self.runtime, self.types.types(), graph, plan))
    }
}

/// Notes the requirements of a plan by buffer.
fn note_required(required: &mut [Required], plans: &[BufferPlan]) {
    for (required, plan) in required.iter_mut().zip(plans) {
        *required = Required { size: plan.placement.size(), lower_bound: plan.lower_bound };
    }
}
