//! Graphs of programs that know nothing of it, changed to fit a budget: `LASTUSE_BUDGET`, for which large intermediates are computed
//! in tiles, and `LASTUSE_RECOMPUTE`, for which forward results of training graphs are computed again.
//!
//! A graph is changed when it is reserved, and when it is allocated: its list of nodes, and the tensors that tiles compute or
//! that read copies. Equal graphs are changed equally, so one that is rebuilt gets the plan of the one that was reserved. A graph
//! that was changed is recognized by the tensors that were added to it.
//!
//! - [`additions`]: added tensors, their memory and their graphs
//! - [`assignment`]: the backends of a scheduler
//! - [`change`]: what a graph becomes
//! - [`search`]: the search for a graph that fits, and its results
//! - [`messages`]: what is logged and reported
//! - [`undo`]: what graphs were before

mod additions;
mod assignment;
mod change;
mod search;
mod messages;
mod undo;

use std::ptr::NonNull;

use crate::ggml::bindings::ggml_cgraph;
use crate::ggml::extensions::pass::context_bytes;
use crate::ggml::extensions::tiling::subject_of;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::live::visited::Visited;
use crate::ggml::read::fingerprint::Fingerprint;
use crate::ggml::read::{ReadGraph, Requested, read};
use crate::ggml::refusal::Refusal;
use crate::ggml::retention::retain_at;
use crate::graph::tiling::TileKernels;
use crate::graph::{BufferIndex, GraphPlan};
use crate::placement::Bytes;
use crate::settings::{Budgets, Settings};

use super::cache::{Cache, Served};
use super::planner::Planner;
use additions::{AddedRanges, Listed, add_tensors, complete_lists, follow_cleared_memory, listed};
pub use assignment::{Assignment, Backend};
use messages::{LISTED_BY_HAND, SHARED, log_change, log_once, log_unsupported};
use search::{KnownChange, Subject, Target};
use undo::{Before, before_change, has_changed_graphs, undo_own, undo_shared};
pub use undo::{backends_of, undo_reserved};

/// How an allocator keeps its budgets.
#[derive(Debug)]
pub struct BudgetPass {
    /// Bytes for the buffers of each device.
    budgets: Budgets,
    /// Bytes for training graphs.
    training: Option<Bytes>,
    /// Whether tensors are kept to what buffer types allocate at once.
    pub limits_tensors: bool,
    /// Whether tensors are kept to that where a type refuses more, which is tried.
    pub tries_buffers: bool,
    /// The types that were tried, and whether they refuse.
    tried: Vec<(BufferType, bool)>,
    /// The most nodes of a changed graph, if it has room for more.
    most_nodes: usize,
    known: Cache<KnownChange>,
    /// Whether it was logged that graphs of nodes that the program lists itself are not changed.
    has_logged_lists: bool,
    /// Whether it was logged that graphs that share tensors are not changed.
    has_logged_shared: bool,
}

/// A graph to be changed.
struct Found<'a, 'g> {
    known: &'a KnownChange,
    /// Its tensors by id.
    tensors: Vec<TensorRef<'g>>,
}

/// A live graph of a planner, and the backends of its nodes if its scheduler has several.
struct Given<'a, 'g> {
    planner: &'a mut Planner,
    graph: NonNull<ggml_cgraph>,
    /// Its nodes are listed in the order in which they are run.
    live: GraphRef<'g>,
    assignment: Option<&'a Assignment>,
}

/// Returns the bytes that ggml's own allocator needs for a graph of one buffer that was read, as the program built it, by buffer.
pub type ByGgml<'a> = &'a dyn Fn(&Planner, GraphRef<'_>, &ReadGraph<'_>) -> Option<Vec<Bytes>>;

impl BudgetPass {
    /// Creates those of a new allocator.
    pub fn new(settings: &Settings) -> Self {
        Self {
            budgets: settings.budget.clone(),
            training: settings.recompute,
            limits_tensors: false,
            tries_buffers: false,
            tried: Vec::new(),
            most_nodes: usize::MAX,
            known: Cache::new(),
            has_logged_lists: false,
            has_logged_shared: false,
        }
    }

    /// Returns `true` if there is a budget.
    pub fn is_asked(&self) -> bool {
        !self.budgets.is_none() || self.training.is_some() || self.limits_tensors || self.tries_buffers
    }

    /// Changes graphs to ones of at most this many nodes.
    pub fn limit_nodes(&mut self, most: usize) {
        self.most_nodes = most;
    }

    /// Forgets the changes that were found, since later plans are made differently.
    pub fn clear(&mut self) {
        self.known = Cache::new();
    }

    /// Returns what ggml-alloc needs for the graph that a graph was made of, by buffer.
    pub fn by_ggml(&self, graph: GraphRef<'_>) -> Option<Vec<Bytes>> {
        self.has_changed(graph).then(|| before_change(graph)).flatten()
    }

    /// Returns `true` if there is a budget, and tensors were added to the graph to keep it.
    pub fn has_changed(&self, graph: GraphRef<'_>) -> bool {
        self.is_asked() && is_changed(graph)
    }

    /// Changes a graph that is reserved or allocated so that its plan fits the budgets, if there are any. What cannot be met
    /// is logged, once; the graph is then changed as far as it can be. `assignment` has the backends of its leafs and nodes if its
    /// scheduler has several, and gets those of added tensors. Returns `true` if it was changed now.
    ///
    /// # Errors
    /// [`Refusal::NoRoom`] if the graph shares tensors with one that was changed, and has no room for theirs.
    ///
    /// # Safety
    /// `graph` is live with its tensors, no other thread uses them, and no [`GraphRef`] of it is used afterwards.
    pub unsafe fn fit(
        &mut self,
        planner: &mut Planner,
        graph: NonNull<ggml_cgraph>,
        assignment: Option<&mut Assignment>,
        by_ggml: Option<ByGgml<'_>>,
    ) -> Result<bool, Refusal> {
        // SAFETY: live, and used by no other thread: see "# Safety".
        if unsafe { self.to_change(planner, graph, assignment.is_some()) }.is_none() {
            return Ok(false);
        }
        let ranges = AddedRanges::now();
        if has_changed_graphs() {
            // SAFETY: live, as the caller guarantees, and read anew below.
            unsafe { undo(planner, graph, &ranges) };
        }
        // SAFETY: live, as the caller guarantees.
        let live = unsafe { GraphRef::new(graph) };
        match listed(live, &ranges) {
            Listed::None => {}
            Listed::All => {
                follow_cleared_memory(live, &ranges);
                return Ok(false);
            }
            // SAFETY: live, and used by no other thread: see "# Safety"; `live` is not used any more.
            Listed::Missing => return unsafe { complete_lists(graph, &ranges) }.map(|()| false),
        }
        // SAFETY: live, and used by no other thread: see "# Safety"; `live` is not used any more.
        unsafe { self.change(planner, graph, assignment, by_ggml) }
    }

    /// Changes a graph without added tensors for each buffer that has a budget.
    ///
    /// # Safety
    /// See [`BudgetPass::fit`].
    unsafe fn change(
        &mut self,
        planner: &mut Planner,
        graph: NonNull<ggml_cgraph>,
        mut assignment: Option<&mut Assignment>,
        by_ggml: Option<ByGgml<'_>>,
    ) -> Result<bool, Refusal> {
        let runtime = planner.runtime;
        let (mut before, mut refused, mut is_supported) = (None, Ok(()), true);
        for target in self.targets(planner, assignment.as_deref()) {
            // SAFETY: live, as the caller guarantees, and read anew for each buffer.
            let live = unsafe { GraphRef::new(graph) };
            let given = Given { planner: &mut *planner, graph, live, assignment: assignment.as_deref() };
            // SAFETY: live, and used by no other thread: see "# Safety".
            let Some(Found { known, tensors }) = (unsafe { self.found_for(given, target, by_ggml) }) else { continue };
            before.get_or_insert_with(|| (Before::of(live, &tensors), known.by_ggml.clone()));
            let buffer_type = planner.types.list[target.buffer as usize];
            let is_known = target.kernels == Some(TileKernels::Cpu);
            let note = |tensor: TensorRef<'_>, given: TensorRef<'_>| {
                if tensor == given {
                    return;
                }
                is_supported &= is_known || buffer_type.supports(tensor);
                if let Some(assignment) = assignment.as_deref_mut() {
                    assignment.assign_as(tensor, given);
                }
            };
            // SAFETY: live, with room for the nodes, and a context with room for the tensors; `live` is not used any more.
            let add = |context| unsafe { known.found.apply(runtime, context, graph, &tensors, note) };
            let bytes = context_bytes(runtime, known.found.room().1);
            if add_tensors(runtime, &tensors, bytes, add).is_none() {
                refused = Err(Refusal::NoMemory { buffer: "context".to_owned(), size: bytes as Bytes });
                break;
            }
            if !is_supported {
                self.known.current_mut().iter_mut().for_each(|known| known.is_refused = true);
                log_unsupported(buffer_type);
                break;
            }
        }
        let is_changed = before.is_some();
        if let Some((before, by_ggml)) = before {
            // SAFETY: live, as the caller guarantees.
            unsafe { before.remember(graph, by_ggml, assignment.as_deref()) };
        }
        if !is_supported {
            // SAFETY: live, as the caller guarantees, and not allocated.
            unsafe { undo_reserved(graph) };
        }
        refused.map(|()| is_changed && is_supported)
    }

    /// Plans the graph that [`BudgetPass::fit`] would make of `graph`, whose nodes are listed in `live` in the order in which they are
    /// run, and returns its plan; `None` if it would stay as it is.
    ///
    /// # Safety
    /// `graph` is live with its tensors, and no other thread uses them.
    pub unsafe fn measure(
        &mut self,
        planner: &mut Planner,
        graph: NonNull<ggml_cgraph>,
        live: GraphRef<'_>,
    ) -> Option<GraphPlan> {
        // SAFETY: live, as the caller guarantees.
        unsafe { self.to_change(planner, graph, false) }.filter(|given| !is_changed(*given))?;
        let target = self.targets(planner, None).into_iter().next()?;
        // SAFETY: live, as the caller guarantees.
        let found =
            unsafe { self.found_for(Given { planner: &mut *planner, graph, live, assignment: None }, target, None) }?;
        let reading = read(planner.runtime, &planner.types.list, live, &Requested::default());
        let change = &found.known.found;
        let planned = planner.search(&reading, &Requested::default(), |buffers, requests, sizes| {
            change.plan(buffers, requests.leafs, sizes)
        });
        planned.ok()
    }

    /// Returns the graph if it may be changed: it is the program's own, and goes to one buffer type, or its scheduler `is_assigned`.
    ///
    /// # Safety
    /// `graph` is live with its tensors for `'g`, and no other thread uses them.
    unsafe fn to_change<'g>(
        &self,
        planner: &Planner,
        graph: NonNull<ggml_cgraph>,
        is_assigned: bool,
    ) -> Option<GraphRef<'g>> {
        let is_one = is_assigned || planner.types.list.len() == 1;
        // SAFETY: live, as the caller guarantees.
        let may_be = self.is_asked() && is_one && unsafe { GraphRef::is_whole(graph) };
        // SAFETY: live, as the caller guarantees.
        may_be.then(|| unsafe { GraphRef::new(graph) })
    }

    /// Returns what graphs are to fit, by buffer: the scheduler's own copies take of the budgets.
    fn targets(&self, planner: &Planner, assignment: Option<&Assignment>) -> Vec<Target> {
        let target = |buffer: BufferIndex| {
            let mut names = planner.types.list[buffer as usize].names();
            let backends = || assignment.into_iter().flat_map(|assignment| assignment.backends_in(buffer));
            names.extend(backends().map(|backend| backend.name.clone()));
            let copies = backends().fold(0, |sum: Bytes, backend| sum.saturating_add(backend.copies));
            let left = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.saturating_sub(copies));
            let (budget, training) = (left(self.budgets.of(&names)), left(self.training));
            let own = || planner.types.list[buffer as usize].tile_kernels();
            let kernels = assignment.map_or_else(own, |_| backends().find_map(|backend| backend.tiles));
            if kernels.is_none() {
                // Forward results are computed again by the same kernels.
                return Target { buffer, kernels, copies, budget: None, training: training.or(budget), largest: None };
            }
            let largest = planner.types.specs[buffer as usize].max_chunk;
            let largest = largest.filter(|_| self.limits_tensors || self.tries_buffers);
            Target { buffer, kernels, copies, budget, training, largest }
        };
        let buffers = (0..).take(planner.types.list.len());
        buffers.map(target).filter(|it| it.budget.or(it.training).or(it.largest).is_some()).collect()
    }

    /// Returns how a graph is to be changed; `None` if it stays as it is.
    ///
    /// # Safety
    /// The graph is live with its tensors, and no other thread uses them.
    unsafe fn found_for<'g>(
        &mut self,
        given: Given<'_, 'g>,
        target: Target,
        by_ggml: Option<ByGgml<'_>>,
    ) -> Option<Found<'_, 'g>> {
        let Given { planner, graph, live, assignment } = given;
        let fingerprint = Fingerprint::of_placed(&planner.runtime.operations, live);
        let requested = assignment.map_or_else(Requested::default, |assignment| assignment.requested(live));
        let retained = planner.retention.current().positions(live);
        let is_same = |known: &KnownChange| {
            known.unchanged.contains(fingerprint)
                && (known.target, &known.requested, &known.retained) == (target, &requested, &retained)
        };
        if self.known.select(is_same).is_some() {
            return None;
        }
        if live.nodes.iter().any(|node| node.stays_whole()) {
            log_once(planner.runtime, &mut self.has_logged_shared, SHARED);
            return None;
        }
        // SAFETY: live, of this ggml, and used by no other thread, as the caller guarantees.
        if unsafe { Visited::of(planner.runtime, graph) }.first_missing(live).is_some() {
            log_once(planner.runtime, &mut self.has_logged_lists, LISTED_BY_HAND);
            return None;
        }
        // SAFETY: live, as the caller guarantees.
        let capacity = unsafe { GraphRef::capacity(graph) }.min(self.most_nodes);
        let mut reading = read(planner.runtime, &planner.types.list, live, &requested);
        retain_at(&retained, &mut reading.graph);
        let buffer_type = planner.types.list[target.buffer as usize];
        let is_own =
            |node: TensorRef<'_>| assignment.is_none_or(|assignment| !assignment.is_elsewhere(node, target.buffer));
        let owners = live.nodes.iter().copied().filter(|&node| node.view_source().is_none() && is_own(node));
        let largest = owners.map(|node| buffer_type.alloc_size(node)).max().zip(target.largest);
        let is_too_large = largest.is_some_and(|(largest, most)| largest > most && self.refuses(buffer_type, largest));
        let sought = Target { largest: target.largest.filter(|_| is_too_large), ..target };
        // A whole that cannot be computed has no bits to be kept.
        let kernels = target.kernels.map(|kernels| kernels.with_same_bits(!is_too_large));
        let mut subject = subject_of(planner.runtime, &reading, kernels, Some(buffer_type));
        if let Some(assignment) = assignment {
            for (known, &tensor) in subject.known.iter_mut().zip(&reading.tensors) {
                known.kept |= !assignment.may_be_tiled(tensor, target.buffer);
                known.unsliced |= assignment.is_elsewhere(tensor, target.buffer);
            }
        }
        let is_equal = |known: &KnownChange| {
            (known.capacity, known.target) == (capacity, target)
                && known.requested == requested
                && known.subject == subject
        };
        if self.known.select(is_equal).is_none() {
            // Graphs that cannot be planned are refused when they are planned.
            let found = planner.search(&reading, &requested, |buffers, requests, sizes| {
                Subject { graph: &subject, buffers, requests, capacity }.search(sought, sizes)
            });
            let found = found.ok()?;
            let by_ggml = by_ggml.filter(|_| found.is_changed());
            let by_ggml = by_ggml.and_then(|by_ggml| by_ggml(planner, live, &reading));
            log_change(buffer_type, &found, sought, capacity);
            let unchanged = Served::default();
            self.known.add(KnownChange {
                subject,
                requested,
                target,
                retained,
                capacity,
                found,
                is_refused: false,
                by_ggml,
                unchanged,
            });
        }
        let known = self.known.current_mut()?;
        if !known.found.is_changed() || known.is_refused {
            known.unchanged.add(fingerprint);
            return None;
        }
        Some(Found { known, tensors: reading.tensors })
    }

    /// Returns `true` if a buffer of this size, which is more than the type allocates at once, is refused.
    fn refuses(&mut self, buffer_type: BufferType, size: Bytes) -> bool {
        if self.limits_tensors {
            return true;
        }
        let known = self.tried.iter().find(|(tried, _)| *tried == buffer_type).map(|(_, refuses)| *refuses);
        known.unwrap_or_else(|| {
            let refuses = buffer_type.allocate(size).is_none();
            self.tried.push((buffer_type, refuses));
            refuses
        })
    }
}

/// Returns `true` if tensors were added to the graph.
pub fn is_changed(graph: GraphRef<'_>) -> bool {
    listed(graph, &AddedRanges::now()) != Listed::None
}

/// Restores a graph to its state before it, or another graph that shares its tensors, was tiled, if the tiling graph
/// would compute something else.
///
/// # Safety
/// `graph` is live with its tensors, no other thread uses them, and no [`GraphRef`] of it is used afterwards.
unsafe fn undo(planner: &mut Planner, graph: NonNull<ggml_cgraph>, ranges: &AddedRanges) {
    let retention = planner.retention.current();
    let is_wanted = |tensor: TensorRef<'_>| tensor.has_memory() || retention.retains(tensor);
    // SAFETY: live, as the caller guarantees.
    unsafe { undo_own(graph, is_wanted) };
    // SAFETY: live, as the caller guarantees, and read anew.
    if listed(unsafe { GraphRef::new(graph) }, ranges) != Listed::All {
        // SAFETY: live, as the caller guarantees.
        unsafe { undo_shared(graph, ranges) };
    }
}
