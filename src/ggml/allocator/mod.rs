//! The graph allocator behind `ggml_gallocr_t`: plans a graph, allocates the buffers, and assigns the tensors their addresses.
//!
//! `ggml_gallocr_reserve_n` ends in [`Allocator::reserve`], `ggml_gallocr_alloc_graph` in [`Allocator::allocate`]. Both first
//! search the [`remembered`] plans for one that serves the graph. Otherwise the graph is read ([`crate::ggml::read`]), planned
//! ([`planning`]), [`chunks`] are allocated, and the plan is remembered. [`assign`] writes addresses into tensors.

mod tag;
mod types;
mod planning;
mod chunks;
mod remembered;
mod assign;
mod activity;
mod inspect;

use std::ptr::NonNull;
use std::time::Instant;

use crate::ggml::context::Waiting;
use crate::ggml::linking::original::ggml_gallocr;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::observe::capture::captures;
use crate::ggml::observe::events::Events;
use crate::ggml::observe::statistics::totals;
use crate::ggml::observe::verify::{Verifier, Violation};
use crate::ggml::outputs::check::check_outputs;
use crate::ggml::process::settings::{Settings, settings};
use crate::ggml::read::fingerprint::Fingerprint;
use crate::ggml::read::requested::Requested;
use crate::ggml::read::snapshot::Subject;
use crate::ggml::read::{Reading, read, read_to_plan};
use crate::ggml::refusal::Refusal;
use crate::graph::{GraphPlan, PlanError, RuleSetting};
use crate::placement::{Bytes, Effort};
use activity::{Activity, BufferState, Decision, Required};
use assign::{assign_by_position, assign_fitting};
use chunks::Chunks;
use planning::plan_reading;
use remembered::RememberedPlans;
use remembered::fit::fit;
use remembered::plan::RememberedPlan;
use tag::Tag;
use types::BufferTypes;

/// What a `ggml_gallocr_t` points to. The tag comes first, also in memory.
///
/// One thread at a time may use it; it can move between threads.
#[derive(Debug)]
#[repr(C)]
pub struct Allocator {
    tag: Tag,
    runtime: &'static Runtime,
    types: BufferTypes,
    chunks: Chunks,
    /// By buffer.
    required: Vec<Required>,
    plans: RememberedPlans,
    activity: Activity,
    verifier: Verifier,
}

impl Allocator {
    /// Creates an allocator without memory; buffer id `i` stands for `types[i]`. `events` is the report that it writes to.
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
        Self {
            tag: Tag::new(),
            runtime,
            types,
            chunks: Chunks::none(buffers),
            required: vec![Required::default(); buffers],
            plans: RememberedPlans::none(),
            activity: activity(buffers),
            verifier: Verifier::new(settings.verify),
        }
    }

    /// Returns `galloc` as an allocator of lastuse; `None` if it is one of ggml's own.
    ///
    /// # Safety
    /// `galloc` is alive.
    pub unsafe fn from_c(galloc: NonNull<ggml_gallocr>) -> Option<NonNull<Self>> {
        const { assert!(std::mem::offset_of!(Self, tag) == 0, "it is what tells allocators apart") };
        // SAFETY: both kinds of allocators begin with a word.
        let word = unsafe { galloc.cast::<usize>().read() };
        Tag::is_tag(word).then(|| galloc.cast())
    }

    /// Sets the in-place and aliasing rules for future plans; remembered plans are dropped.
    pub fn set_rules(&mut self, setting: &RuleSetting) {
        self.types.set_rules(setting);
        self.plans.clear();
    }

    /// Sets how much work placing may take in future plans; remembered plans are dropped.
    pub fn set_effort(&mut self, effort: Effort) {
        self.types.set_effort(effort);
        self.plans.clear();
    }

    /// The number of plans that this process has made.
    pub fn plan_count() -> u64 {
        totals().plans
    }

    /// The ggml that its graphs and buffers belong to.
    pub fn runtime(&self) -> &'static Runtime {
        self.runtime
    }

    /// The number of buffer ids.
    pub fn buffer_count(&self) -> usize {
        self.types.id_count()
    }

    /// Bytes held in the buffer behind `id`; 0 for an id that repeats the buffer type of an earlier one.
    pub fn buffer_size(&self, id: usize) -> Bytes {
        self.types.first_use(id).map_or(0, |buffer| self.chunks.size(buffer))
    }

    /// Bytes that the latest plan requires for `id`, whether or not they could be allocated.
    pub fn required_size(&self, id: usize) -> Bytes {
        self.types.first_use(id).map_or(0, |buffer| self.required[buffer].size)
    }

    /// The lower bound of the latest plan for `id`.
    pub fn lower_bound(&self, id: usize) -> Bytes {
        self.types.first_use(id).map_or(0, |buffer| self.required[buffer].lower_bound)
    }

    /// Plans `graph`, unless a remembered plan was made for it, and allocates the buffers; the graph itself is not changed.
    /// `None` for the ids means 0.
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
        self.waiting(graph, &requested)?.realize()?;
        let decision = if self.plans.select_requested(self.runtime, graph, &requested) {
            self.check_outputs_again(graph)?;
            Decision::Remembered
        } else {
            self.add_plan(graph, requested)?;
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
        let read = if captures().are_wanted() { read } else { read_to_plan };
        let reading = read(self.runtime, self.types.types(), graph, &requested);
        self.plan(&reading, &requested, start)?;
        Ok(self.types.buffer_of_id().iter().map(|&buffer| self.required[buffer as usize].size).collect())
    }

    /// Assigns memory to every tensor of `graph`. With one buffer, a graph that was not reserved is reserved now.
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
        self.realize_waiting(&Waiting::among_listed(graph))?;
        if !self.plans.is_empty() {
            if self.plans.select_known(self.runtime, graph) {
                self.check_outputs_again(graph)?;
                self.ensure_chunks()?;
                if let Some(done) = self.assign_by_position(graph) {
                    return done.map(|()| Decision::Same);
                }
            }
            self.realize_waiting(&Waiting::in_graph(graph))?;
            if let Some(fitting) = self.plans.select_fitting(self.runtime, self.types.types(), graph) {
                self.ensure_chunks()?;
                if let Some(plan) = self.plans.current() {
                    self.check_outputs(graph, &plan.requested)?;
                }
                self.note_checked_outputs(graph);
                let fingerprint = Fingerprint::of(&self.runtime.operations, graph);
                let plan = self.plans.current_mut().ok_or(Refusal::NeedsReserve)?;
                plan.note_served(fitting.waiting, fingerprint);
                return assign_fitting(self.runtime, &self.chunks, plan, &fitting).map(|()| Decision::Fits);
            }
        }
        if self.types.id_count() == 1 {
            self.realize_waiting(&Waiting::in_graph(graph))?;
            self.add_plan(graph, Requested::default())?;
            self.allocate_chunks()?;
            let done = self.assign_by_position(graph).unwrap_or_else(|| self.assign_planned(graph));
            return done.map(|()| Decision::Planned);
        }
        let is_nothing = self.plans.is_empty() && graph.leafs.is_empty() && graph.nodes.is_empty();
        if is_nothing { Ok(Decision::Empty) } else { Err(Refusal::NeedsReserve) }
    }

    /// Verifies the addresses assigned to `graph`, if enabled: simulates the graph and informs the guards.
    ///
    /// # Errors
    /// [`Violation`] if a value would be lost.
    pub fn verify(&mut self, graph: GraphRef<'_>) -> Result<(), Violation> {
        let Self { runtime, verifier, chunks, .. } = self;
        verifier.verify(runtime, graph, |buffer| chunks.contains(buffer.as_ptr()))
    }

    /// The tensors that their contexts are to allocate, if the graph expects them where their contexts put them.
    fn waiting<'g>(&self, graph: GraphRef<'g>, requested: &Requested) -> Result<Waiting<'g>, Refusal> {
        let waiting = Waiting::in_graph(graph);
        let types = self.types.types();
        if types.len() > 1 {
            waiting.is_expected(|position| types[requested.buffer(position) as usize])?;
        }
        Ok(waiting)
    }

    /// Lets contexts allocate their tensors. With several buffers only a reservation states where the graph expects them.
    fn realize_waiting(&self, waiting: &Waiting<'_>) -> Result<(), Refusal> {
        let is_single = self.types.types().len() == 1;
        if waiting.is_empty() || is_single { waiting.realize() } else { Err(Refusal::NeedsReserve) }
    }

    /// Plans `graph` and remembers the plan, which is then in use.
    fn add_plan(&mut self, graph: GraphRef<'_>, requested: Requested) -> Result<(), Refusal> {
        let start = Instant::now();
        let is_reported = captures().are_wanted() || self.activity.are_events_requested();
        let read = if is_reported { read } else { read_to_plan };
        let reading = read(self.runtime, self.types.types(), graph, &requested);
        let is_redirecting = !reading.redirecting.is_empty();
        if is_redirecting {
            self.check_outputs(graph, &requested)?;
        }
        let plan = self.plan(&reading, &requested, start).inspect_err(|_| self.plans.clear())?;
        let is_compared = self.activity.are_events_requested();
        let by_ggml = is_compared.then(|| self.subject(&reading, &requested.of_all(&reading.graph)).sizes_by_ggml());
        self.activity.note_plan(&plan, by_ggml.flatten().as_deref());
        self.plans.make_room();
        let is_by_layout = self.types.types().iter().all(|buffer_type| buffer_type.goes_by_layout());
        let exact = (!is_by_layout).then(|| Fingerprint::of(&self.runtime.operations, graph));
        self.plans.add(RememberedPlan::new(reading, plan, requested, exact));
        if is_redirecting {
            self.note_checked_outputs(graph);
        }
        Ok(())
    }

    /// Plans what was read from `start` on, and captures it if captures are enabled.
    fn plan(&mut self, reading: &Reading<'_>, requested: &Requested, start: Instant) -> Result<GraphPlan, Refusal> {
        let planned = plan_reading(&self.types, reading, requested);
        self.activity.count_planning(start.elapsed());
        if captures().are_wanted() {
            captures().capture(self.subject(reading, &requested.of_all(&reading.graph)));
        }
        let plan = planned.map_err(|PlanError::TooLarge { buffer, bytes }| {
            self.required[buffer as usize] = Required { size: bytes, lower_bound: bytes };
            Refusal::NoMemory { buffer: self.types.types()[buffer as usize].name(), size: bytes }
        })?;
        for (required, buffer) in self.required.iter_mut().zip(&plan.buffers) {
            *required = Required { size: buffer.placement.size(), lower_bound: buffer.lower_bound };
        }
        Ok(plan)
    }

    fn subject<'a, 'g>(&'a self, reading: &'a Reading<'g>, requested: &'a Requested) -> Subject<'a, 'g> {
        let (types, buffers) = (self.types.types(), self.types.specs());
        Subject { runtime: self.runtime, types, buffers, requested, reading }
    }

    /// Allocates chunks for a selected plan where those held are too small. With several buffers only a reservation does that.
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
        let Self { types, chunks, required, .. } = self;
        self.activity.note_buffers(chunks.total(), counts, || buffer_states(types, chunks, required));
        done
    }

    fn grow_chunks(&mut self) -> Result<(), Refusal> {
        for (buffer, &buffer_type) in self.types.types().iter().enumerate() {
            let Some(plan) = self.plans.current() else { return Ok(()) };
            let plan = &plan.buffers()[buffer];
            self.required[buffer] = Required { size: plan.placement.size(), lower_bound: plan.lower_bound };
            if !self.chunks.suffice_for(buffer, &plan.placement.chunks) {
                self.verifier.forget();
                let done = self.chunks.replace(buffer, buffer_type, &plan.placement.chunks);
                done.inspect_err(|_| self.plans.clear())?;
            }
        }
        Ok(())
    }

    /// Assigns memory to a graph that the plan in use serves, tensor by tensor as they are listed. `None` if some are in no list.
    fn assign_by_position(&self, graph: GraphRef<'_>) -> Option<Result<(), Refusal>> {
        assign_by_position(self.runtime, &self.chunks, self.plans.current()?, graph)
    }

    /// Assigns memory to the graph that the plan in use was made for.
    fn assign_planned(&self, graph: GraphRef<'_>) -> Result<(), Refusal> {
        let plan = self.plans.current().ok_or(Refusal::NeedsReserve)?;
        let fitting = fit(plan, self.runtime, self.types.types(), graph).ok_or(Refusal::NeedsReserve)?;
        assign_fitting(self.runtime, &self.chunks, plan, &fitting)
    }

    /// Checks the redirected results of a graph that is planned for `requested`, or that fits such a plan.
    fn check_outputs(&self, graph: GraphRef<'_>, requested: &Requested) -> Result<(), Refusal> {
        let types = self.types.types();
        let buffer_type = |node: usize| types.get(requested.buffer(requested.leafs.len() + node) as usize).copied();
        check_outputs(self.runtime, graph, buffer_type).map_err(Refusal::Output)
    }

    /// Checks the redirected results of a graph that the plan in use serves, if constants changed in ways that the plan's key
    /// does not cover.
    fn check_outputs_again(&mut self, graph: GraphRef<'_>) -> Result<(), Refusal> {
        let Some(plan) = self.plans.current().filter(|plan| plan.checked_outputs.is_some()) else {
            return Ok(());
        };
        let outputs = Fingerprint::of_outputs(self.runtime, graph);
        if outputs.is_some() && outputs != plan.checked_outputs {
            self.check_outputs(graph, &plan.requested)?;
            self.note_checked_outputs(graph);
        }
        Ok(())
    }

    /// Notes that the redirected results of a graph, if it has some, were checked for the plan in use.
    fn note_checked_outputs(&mut self, graph: GraphRef<'_>) {
        if let (Some(outputs), Some(plan)) = (Fingerprint::of_outputs(self.runtime, graph), self.plans.current_mut()) {
            plan.checked_outputs = Some(outputs);
        }
    }
}

/// The buffers, each with the first id that stands for it.
fn buffer_states(types: &BufferTypes, chunks: &Chunks, required: &[Required]) -> Vec<BufferState> {
    let state = |id: usize| {
        let index = types.first_use(id)?;
        let (name, bytes) = (types.types()[index].name(), chunks.size(index));
        Some(BufferState { id, index, name, bytes, required: required[index] })
    };
    (0..types.id_count()).filter_map(state).collect()
}
