//! The graph allocator behind `ggml_gallocr_t`: plans a graph, allocates the buffers, and assigns the tensors their
//! addresses.
//!
//! `ggml_gallocr_reserve_n` calls [`Allocator::reserve`], `ggml_gallocr_alloc_graph` calls [`Allocator::allocate`]. Before
//! either, [`passes`] may change the graph, where the program's user asks for it. Then [`serve`] searches the [`plan_cache`]
//! for a plan; if there is none, the [`planner`] reads and plans the graph with the tensors to retain ([`retention`]) for the
//! buffers ([`types`]), and the plan is cached. [`chunks`] of memory are allocated, [`assign`] writes addresses into tensors.
//! Memory that later graphs do not need is given back ([`on_demand`]).
//! After that, [`activity`] reports the work, also to the accounting of the process.
//!
//! - [`tag`]: what distinguishes an allocator of lastuse from ggml's own
//! - [`kernels`]: the placement that costs a device least
//! - [`orders`], [`tiling`]: the passes
//! - [`inspect`]: reports on request
//! - [`measure`]: what a graph needs, without an allocator

mod tag;
mod types;
mod retention;
mod kernels;
mod planner;
mod chunks;
mod on_demand;
mod plan_cache;
mod orders;
mod tiling;
mod passes;
mod assign;
mod activity;
mod serve;
mod inspect;
pub mod measure;

use std::ptr::NonNull;
use std::time::Instant;

use crate::ggml::bindings::ggml_cgraph;
use crate::ggml::linking::original::ggml_gallocr;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::observe::capture::captures;
use crate::ggml::observe::events::Events;
use crate::ggml::observe::verify::{Verifier, Violation};
use crate::ggml::process::settings::{Settings, settings};
use crate::ggml::refusal::Refusal;
use crate::graph::{BufferPlan, RuleSetting};
use crate::placement::{Bytes, Effort};
use activity::{Activity, Required};
use chunks::Chunks;
use on_demand::Demand;
use passes::Passes;
use plan_cache::PlanCache;
use planner::{Kept, Planner};
use retention::NotRetained;
use serve::note_required;
use tag::Tag;

/// The target of a `ggml_gallocr_t`. The tag is the first field in memory too.
///
/// One thread at a time may use it; it can move between threads.
#[derive(Debug)]
#[repr(C)]
pub struct Allocator {
    tag: Tag,
    planner: Planner,
    chunks: Chunks,
    demand: Demand,
    /// Requirements of the latest plan for each buffer.
    required: Vec<Required>,
    plans: PlanCache,
    /// What changes graphs before they are planned.
    passes: Option<Box<Passes>>,
    /// After the chunks, which are freed first: the accounting has the graph as long as they exist.
    activity: Activity,
    verifier: Verifier,
}

impl Drop for Allocator {
    fn drop(&mut self) {
        let workspace = &mut self.planner.workspace;
        self.plans.clear(workspace);
        std::mem::take(workspace).leave();
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
        let planner = Planner::new(runtime, types, &settings);
        let buffers = planner.types.types().len();
        let activity = activity(buffers);
        Self {
            tag: Tag::new(),
            planner,
            chunks: Chunks::none(buffers),
            demand: Demand::new(&settings, buffers),
            required: vec![Required::default(); buffers],
            plans: PlanCache::none(),
            passes: Passes::new(&settings, activity.are_events_requested()),
            activity,
            verifier: Verifier::new(settings.verify),
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
        self.planner.types.set_rules(setting);
        self.drop_plans();
    }

    /// Sets how much work placing may take in future plans; cached plans are dropped.
    pub fn set_effort(&mut self, effort: Effort) {
        self.planner.types.set_effort(effort);
        self.drop_plans();
    }

    /// Notes that the program does something that no scheduler does. Plans that were made before keep no inputs, and
    /// are dropped.
    ///
    /// Programs with a scheduler set their inputs before each run. Others may set one once and compute several times,
    /// so their inputs are kept where ggml's own allocator leaves them intact
    /// ([`Rules::keep_inputs`](crate::graph::Rules::keep_inputs)). A scheduler creates its allocator by
    /// `ggml_gallocr_new_n`, reserves with a buffer id for each node, and allocates a copy of the graph.
    pub fn note_direct_use(&mut self) {
        if self.planner.types.use_directly() {
            self.drop_plans();
        }
    }

    fn drop_plans(&mut self) {
        self.plans.clear(&mut self.planner.workspace);
        if let Some(passes) = &mut self.passes {
            passes.forget_tilings();
        }
    }

    /// Retains a tensor in future plans: until `until` has run, or to the end of the graph. Plans are cached with the
    /// tensors that they retain, so none is dropped.
    ///
    /// # Errors
    /// [`NotRetained::NoNode`] if no operation computes `until`, [`NotRetained::Tiled`] if none computes the tensor.
    pub fn retain(&mut self, tensor: TensorRef<'_>, until: Option<TensorRef<'_>>) -> Result<(), NotRetained> {
        let Planner { runtime, retention, .. } = &mut self.planner;
        let Some(node) = until else { return retention.retain(tensor) };
        retention.retain_until(&runtime.operations, tensor, node)?;
        // Tensors retained until a node ran stay before that node.
        if let Some(passes) = &mut self.passes {
            passes.forget_orders();
        }
        Ok(())
    }

    /// Ends [`Allocator::retain`] for future plans.
    ///
    /// # Errors
    /// [`NotRetained::NotRegistered`] if the tensor is not retained so.
    pub fn release(&mut self, tensor: TensorRef<'_>) -> Result<(), NotRetained> {
        self.planner.retention.release(tensor)
    }

    /// The ggml that its graphs and buffers belong to.
    pub fn runtime(&self) -> &'static Runtime {
        self.planner.runtime
    }

    /// Plans `graph`, unless a cached plan was made for it, and allocates the buffers; the graph itself is changed only
    /// by passes. `None` for the ids means 0.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`]; the allocator then holds no plan and can be used again. [`Refusal::NotRealized`] or
    /// [`Refusal::InitFailed`] when a context cannot allocate its tensors.
    ///
    /// # Safety
    /// `graph` is live with its tensors, no other thread uses them, and no [`GraphRef`] of it is used afterwards.
    pub unsafe fn reserve(
        &mut self,
        graph: NonNull<ggml_cgraph>,
        mut node_ids: Option<Vec<usize>>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<(), Refusal> {
        // SAFETY: live, and used by no other thread: see "# Safety".
        self.demand.note_reservation(!unsafe { GraphRef::is_whole(graph) });
        if let Some(passes) = &mut self.passes {
            // SAFETY: live, used by no other thread, and no `GraphRef` of it is used afterwards: see "# Safety".
            unsafe { passes.before_reserving(&mut self.planner, graph, &mut node_ids, leaf_ids) }?;
        }
        // SAFETY: live, and used by no other thread: see "# Safety".
        let graph = unsafe { GraphRef::new(graph) };
        let clock = self.activity.clock();
        let done = self.serve_reservation(graph, node_ids.as_deref(), leaf_ids);
        self.activity.note_decision("reserve", clock, graph, &done);
        done.map(|_| ())
    }

    /// Assigns memory to every tensor of `graph`. With one buffer, a graph that was not reserved is reserved now. With
    /// several, it is planned for the buffers of the latest reservation, if it needs no more memory than is held.
    ///
    /// # Errors
    /// [`Refusal`].
    ///
    /// # Safety
    /// `graph` is live with its tensors, no other thread uses them, and no [`GraphRef`] of it is used afterwards.
    pub unsafe fn allocate(&mut self, graph: NonNull<ggml_cgraph>) -> Result<(), Refusal> {
        // SAFETY: live, and used by no other thread: see "# Safety".
        let is_whole = unsafe { GraphRef::is_whole(graph) };
        // A program that has reserved nothing, and allocates its own graph, uses no scheduler.
        if self.plans.is_empty() && is_whole {
            self.note_direct_use();
        }
        if let Some(passes) = &mut self.passes {
            // SAFETY: live, used by no other thread, and no `GraphRef` of it is used afterwards: see "# Safety".
            unsafe { passes.before_allocating(&mut self.planner, graph) }?;
        }
        // SAFETY: live, and used by no other thread: see "# Safety".
        let graph = unsafe { GraphRef::new(graph) };
        let clock = self.activity.clock();
        let done = self.serve(graph);
        self.activity.note_decision("allocate", clock, graph, &done);
        done?;
        self.note_run(!is_whole);
        Ok(())
    }

    /// Plans `graph` as it would be reserved and returns the bytes by id; neither the graph nor the chunks nor the plan
    /// in use are changed.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`] when sizes overflow.
    ///
    /// # Safety
    /// `graph` is live with its tensors, and no other thread uses them.
    pub unsafe fn measure(
        &mut self,
        graph: NonNull<ggml_cgraph>,
        node_ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<Vec<Bytes>, Refusal> {
        let Self { passes, planner, .. } = self;
        // SAFETY: live, and used by no other thread: see "# Safety".
        let measured = passes.as_mut().map(|passes| unsafe { passes.measure(planner, graph, node_ids, leaf_ids) });
        // SAFETY: live, and used by no other thread: see "# Safety".
        let given = unsafe { GraphRef::new(graph) };
        match &measured {
            Some((_, Some(tiled))) => Ok(self.note_measured(&tiled.buffers)),
            Some((Some(new), None)) => {
                self.measure_in_order(GraphRef { nodes: &new.nodes, ..given }, new.ids.as_deref(), leaf_ids)
            }
            _ => self.measure_in_order(given, node_ids, leaf_ids),
        }
    }

    fn measure_in_order(
        &mut self,
        graph: GraphRef<'_>,
        node_ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<Vec<Bytes>, Refusal> {
        let requested = self.planner.types.requested(graph, node_ids, leaf_ids);
        let start = Instant::now();
        let mut reading = self.planner.read(graph, &requested, captures().is_enabled());
        self.planner.retention.current().retain_in(&mut reading.graph, graph);
        let plan = self.plan(&reading, &requested, start, Kept::AsGgml)?;
        reading.leave_to(&mut self.planner.workspace);
        let measured = self.note_measured(&plan.buffers);
        self.planner.workspace.reuse_plan(plan);
        Ok(measured)
    }

    /// Notes the requirements of a plan that was made only to measure them. Returns the bytes by id.
    fn note_measured(&mut self, plans: &[BufferPlan]) -> Vec<Bytes> {
        note_required(&mut self.required, plans);
        self.planner.types.buffer_of_id().iter().map(|&buffer| self.required[buffer as usize].size).collect()
    }

    /// Verifies the addresses assigned to `graph`, if enabled: simulates the graph and informs the guards.
    ///
    /// # Errors
    /// [`Violation`] if a value would be lost.
    pub fn verify(&mut self, graph: GraphRef<'_>) -> Result<(), Violation> {
        let Self { planner, verifier, chunks, activity, .. } = self;
        let is_verified = verifier
            .verify(planner.runtime, graph, planner.retention.current(), |buffer| chunks.contains(buffer.as_ptr()))?;
        if is_verified {
            activity.note_verified();
        }
        Ok(())
    }
}
