//! The graph allocator behind `ggml_gallocr_t`: plans a graph, allocates the buffers, and assigns the tensors their
//! addresses.
//!
//! `ggml_gallocr_reserve_n` calls [`Allocator::reserve`], `ggml_gallocr_alloc_graph` calls [`Allocator::allocate`]. Before
//! either, [`passes`] may change the graph, where the program's user asks for it. Then [`serve`] searches the [`plan_cache`]
//! for a plan; if there is none, the [`planner`] reads and plans the graph, and the plan is cached. [`chunks`] of memory are
//! allocated, and the assignments of the plan written into tensors. After that, [`activity`] reports the work, also to the accounting of the process.
//!
//! - [`orders`], [`budget`]: the passes
//! - [`large`]: tensors that a buffer type does not allocate at once
//! - [`inspect`]: reports on request, and what a graph needs, without an allocator

mod tag;
mod planner;
pub mod turns;
pub mod arena;
mod demand;
mod discarded;
mod chunks;
mod cache;
mod plan_cache;
mod orders;
mod budget;
mod passes;
mod activity;
mod serve;
mod large;
pub mod inspect;

use std::ptr::NonNull;

use crate::ggml::bindings::ggml_cgraph;
use crate::ggml::linking::original::ggml_gallocr;
use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::live::tensor_mut::TensorMut;
use crate::ggml::observe::events::Events;
use crate::ggml::observe::verify::{Verifier, Violation, places_are_recorded, record_places};
use crate::ggml::process::settings::settings;
use crate::ggml::read::Requested;
use crate::ggml::refusal::{NotRetained, Refusal};
use crate::graph::RuleSetting;
use crate::placement::Effort;
use crate::settings::{ArenaSetting, Settings};
use activity::Activity;
pub use activity::Need;
use arena::{Arena, Tenancy};
pub use budget::{Assignment, Backend, backends_of, is_changed, undo_reserved};
use chunks::Chunks;
pub use passes::Passes;
use plan_cache::PlanCache;
use plan_cache::cached_plan::CachedPlan;
pub use planner::Planner;
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
    /// Whether an allocator of a scheduler joins the arena of the process.
    arena: ArenaSetting,
    /// Requirements of the latest plan for each buffer.
    required: Vec<Need>,
    plans: PlanCache,
    /// What changes graphs before they are planned.
    passes: Option<Box<Passes>>,
    /// After the chunks, which are freed first: the accounting has the graph as long as they exist.
    activity: Activity,
    /// Verifies graphs, where that is enabled.
    verifier: Option<Verifier>,
}

impl Drop for Allocator {
    fn drop(&mut self) {
        self.clear_plans();
        std::mem::take(&mut self.planner.workspace).leave();
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
        let buffers = planner.types.list.len();
        let activity = activity(buffers);
        Self {
            tag: Tag::new(),
            planner,
            chunks: Chunks::none(&settings, buffers),
            arena: settings.arena,
            required: vec![Need::default(); buffers],
            plans: PlanCache::new(),
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
            if self.arena != ArenaSetting::Off {
                self.arena = ArenaSetting::Off;
                self.chunks.share(None);
            }
        }
    }

    /// Returns `true` if all of its memory is of this type.
    pub fn has_only(&self, buffer_type: BufferType) -> bool {
        self.planner.types.list == [buffer_type]
    }

    /// Shares the memory of an arena from now on; `None` ends that. Graphs that were allocated lose their memory.
    pub fn share(&mut self, arena: Option<Arena>) {
        self.arena = ArenaSetting::Off;
        self.verifier.iter_mut().for_each(Verifier::forget);
        self.chunks.share(arena.map(|arena| Tenancy::new(arena, false, None)));
    }

    /// Returns `true` if other allocators share the memory: those of schedulers, where the user asks for it, since programs set
    /// all inputs of a scheduler's graph before each run. On devices, only where it is known when runs have ended.
    fn is_shared(&mut self) -> bool {
        let types = &self.planner.types;
        let may_share = self.arena != ArenaSetting::Off && !types.is_direct && !self.chunks.are_shared();
        let scheduler = if may_share { turns::join(std::ptr::from_ref(self).addr()) } else { None };
        if may_share && (types.are_plain_cpu() || scheduler.is_some()) {
            let keeps_results = self.arena == ArenaSetting::SharedButOutputs;
            // Its latest graph may still be computed in the chunks that it has had until now.
            turns::wait();
            self.chunks.share(Some(Tenancy::new(Arena::OF_PROCESS, keeps_results, scheduler)));
        }
        self.chunks.are_shared()
    }

    /// Notes that the graph that was allocated last is not computed any more, and never was. In an arena, its memory is given up
    /// by the next graph.
    pub fn discard(&mut self) {
        self.verifier.iter_mut().for_each(Verifier::forget);
        self.chunks.discard();
    }

    /// Enters the arena, if there is one: takes its chunks, and puts results that are kept apart into memory of their own, in the
    /// buffer requested for each. Returns these results.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`]; [`Refusal::NeedsReserve`] if the buffers of the results are unknown.
    fn enter_arena<'g>(
        &mut self,
        graph: GraphRef<'g>,
        requested: Option<&Requested>,
    ) -> Result<Vec<TensorRef<'g>>, Refusal> {
        let Planner { types, .. } = &self.planner;
        self.verifier.iter_mut().for_each(Verifier::forget);
        self.chunks.enter(&types.list, graph, requested.is_some());
        if !self.chunks.keeps_results() {
            return Ok(Vec::new());
        }
        let latest = self.plans.current().map(|plan| &plan.requested);
        let is_known = |it: &&Requested| it.nodes.len() == graph.nodes.len() || types.list.len() == 1;
        let requested = requested.or(latest).filter(is_known);
        let buffer_of = |node: usize| requested.and_then(|it| it.nodes.get(node)).map_or(0, |&buffer| buffer as usize);
        if requested.is_none() && types.list.len() > 1 {
            return Err(Refusal::NeedsReserve);
        }
        let placed = self.chunks.place_results(&types.list, graph, buffer_of);
        placed.map_err(|(buffer, size)| Refusal::NoMemory { buffer: types.list[buffer].name(), size })
    }

    fn drop_plans(&mut self) {
        self.clear_plans();
        if let Some(passes) = &mut self.passes {
            passes.forget_changes();
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
        node_ids: Option<Vec<usize>>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<(), Refusal> {
        let mut node_ids = Some(node_ids);
        // A second attempt is made with one buffer type, where ids make no difference.
        // SAFETY: live, and used by no other thread: see "# Safety".
        let attempt = |it: &mut Self| unsafe { it.reserve_once(graph, node_ids.take().flatten(), leaf_ids) };
        // SAFETY: as above.
        unsafe { self.or_in_tiles(graph, attempt) }
    }

    /// # Safety
    /// See [`Allocator::reserve`].
    unsafe fn reserve_once(
        &mut self,
        graph: NonNull<ggml_cgraph>,
        mut node_ids: Option<Vec<usize>>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<(), Refusal> {
        // SAFETY: live, and used by no other thread: see "# Safety".
        self.chunks.demand.note_reservation(!unsafe { GraphRef::is_whole(graph) });
        if let Some(passes) = &mut self.passes {
            // SAFETY: live, used by no other thread, and no `GraphRef` of it is used afterwards: see "# Safety".
            unsafe { passes.before_reserving(&mut self.planner, graph, &mut node_ids, leaf_ids) }?;
        }
        // SAFETY: live, and used by no other thread: see "# Safety".
        let graph = unsafe { GraphRef::new(graph) };
        let clock = self.activity.clock();
        let results = if self.is_shared() {
            let requested = self.planner.types.requested(graph, node_ids.as_deref(), leaf_ids);
            let placed = self.enter_arena(graph, Some(&requested));
            placed.inspect_err(|_| self.chunks.end_reservation())?
        } else {
            Vec::new()
        };
        let done = self.serve_reservation(graph, node_ids.as_deref(), leaf_ids);
        self.activity.note_decision("reserve", clock, graph, &done);
        clear_memory(results);
        self.chunks.end_reservation();
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
        let attempt = |it: &mut Self| unsafe { it.allocate_once(graph) };
        // SAFETY: as above.
        unsafe { self.or_in_tiles(graph, attempt) }
    }

    /// # Safety
    /// See [`Allocator::allocate`].
    unsafe fn allocate_once(&mut self, graph: NonNull<ggml_cgraph>) -> Result<(), Refusal> {
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
        let entered = if self.is_shared() { self.enter_arena(graph, None) } else { Ok(Vec::new()) };
        let results = entered.inspect_err(|_| self.chunks.leave_shared())?;
        let done = self.serve(graph);
        self.activity.note_decision("allocate", clock, graph, &done);
        if done.is_err() {
            clear_memory(results);
            self.chunks.leave_shared();
        }
        done?;
        if self.chunks.are_shared() {
            self.note_shared_chunks();
        }
        let Self { planner, plans, chunks, .. } = self;
        let used = plans.current().map_or(&[][..], CachedPlan::buffers);
        chunks.note_run(planner.runtime, &planner.types.list, used, !is_whole);
        Ok(())
    }

    /// Returns `true` if tensors were added to the graph to keep a budget.
    pub fn has_changed(&self, graph: GraphRef<'_>) -> bool {
        self.passes.as_ref().is_some_and(|passes| passes.has_changed(graph))
    }

    /// The number of buffer ids.
    pub fn buffer_count(&self) -> usize {
        self.planner.types.buffer_of_id.len()
    }

    /// Gives back what the graph allocated last does not need; see [`Chunks::trim`].
    ///
    /// # Safety
    /// No graph is being run, and none but that one is read or run before it is allocated again.
    pub unsafe fn trim(&mut self) {
        // SAFETY: see "# Safety".
        unsafe { self.chunks.trim(&self.planner.types.list) };
    }

    /// Verifies the addresses assigned to `graph`, if enabled: simulates the graph and informs the guards.
    ///
    /// # Errors
    /// [`Violation`] if a value would be lost.
    pub fn verify(&mut self, graph: GraphRef<'_>) -> Result<(), Violation> {
        let owner = std::ptr::from_ref(self).addr();
        let Self { planner, verifier, chunks, activity, .. } = self;
        let is_own = |buffer: BufferRef| chunks.contains(buffer.as_ptr());
        match verifier {
            Some(verifier) => {
                verifier.verify(planner.runtime, graph, planner.retention.current(), owner, is_own)?;
                activity.note_verified();
            }
            None if places_are_recorded() => record_places(planner.runtime, graph, owner, is_own),
            None => {}
        }
        Ok(())
    }
}

/// Takes back the memory of results that were placed.
fn clear_memory(results: Vec<TensorRef<'_>>) {
    for result in results {
        // SAFETY: no reference into the tensor is held.
        unsafe { TensorMut::new(result) }.clear_memory();
    }
}
