//! Large intermediates in tiles, for graphs of programs that know nothing of it: the variable `LASTUSE_BUDGET`.
//!
//! A graph is changed when it is reserved, and when it is allocated: its list of nodes, and the tensors whose tiles are
//! computed, which become views. Equal graphs are tiled equally, so one that is rebuilt gets the plan of the one that was
//! reserved. A graph that was changed is recognized by the tensors that were added to it.
//!
//! - [`additions`]: added tensors, their memory and their graphs
//! - [`search`]: the search for a graph that fits, and its results
//! - [`undo`]: what graphs were before

mod additions;
mod search;
mod undo;

use std::ptr::NonNull;

use crate::ggml::bindings::ggml_cgraph;
use crate::ggml::extensions::pass::context_bytes;
use crate::ggml::extensions::tiling::{rewrite, subject_of, tensors_needed};
use crate::ggml::live::lock::Lock;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::live::visited::Visited;
use crate::ggml::read::fingerprint::Fingerprint;
use crate::ggml::read::{ReadGraph, Requested, read};
use crate::ggml::refusal::Refusal;
use crate::ggml::retention::retain_at;
use crate::ggml::version::SIGNATURE;
use crate::graph::tiling::TiledGraph;
use crate::graph::{BufferIndex, GraphPlan, Sizes, TensorId, Wishes, Workspace, plan};
use crate::placement::Bytes;
use crate::report::sizes::exact;
use crate::settings::Level;

use super::cache::{Cache, Served};
use super::planner::Planner;
use additions::{AddedRanges, Listed, add_tensors, complete_lists, follow_cleared_memory, listed};
use search::{KnownTiling, search};
pub use undo::undo_reserved;
use undo::{Before, before_tiling, has_tiled_graphs, undo_own, undo_shared};

/// Maximum number of logged messages on budgets that cannot be met.
const MOST_LOGGED: usize = 64;

/// How an allocator keeps its budget.
#[derive(Debug)]
pub struct Tilings {
    /// Bytes for all of its buffers; `None` if there is no budget.
    budget: Option<Bytes>,
    /// The most nodes of a tiled graph, if it has room for more.
    most_nodes: usize,
    known: Cache<KnownTiling>,
    /// Whether it was logged that graphs of nodes that the program lists itself are not tiled.
    has_logged_lists: bool,
    /// Whether it was logged that graphs that share tensors are not tiled.
    has_logged_shared: bool,
}

impl Tilings {
    /// Creates those of a new allocator.
    pub fn new(budget: Option<Bytes>) -> Self {
        Self { budget, most_nodes: usize::MAX, known: Cache::new(), has_logged_lists: false, has_logged_shared: false }
    }

    /// Tiles graphs into at most this many nodes.
    pub fn limit_nodes(&mut self, most: usize) {
        self.most_nodes = most;
    }

    /// Forgets the tilings that were found, since later plans are made differently.
    pub fn clear(&mut self) {
        self.known = Cache::new();
    }

    /// Returns what ggml-alloc needs for the graph that a graph was made of, by buffer.
    pub fn by_ggml(&self, graph: GraphRef<'_>) -> Option<Vec<Bytes>> {
        self.has_tiled(graph).then(|| before_tiling(graph)).flatten()
    }
}

/// Returns `true` if tensors were added to the graph.
pub fn is_tiled(graph: GraphRef<'_>) -> bool {
    listed(graph, &AddedRanges::now()) != Listed::None
}

/// A graph to be tiled.
struct Found<'a, 'g> {
    known: &'a KnownTiling,
    /// Its tensors by id.
    tensors: Vec<TensorRef<'g>>,
}

/// Returns the bytes that ggml's own allocator needs for a graph of one buffer that was read, as the program built it, by buffer.
pub type ByGgml<'a> = &'a dyn Fn(&Planner, GraphRef<'_>, &ReadGraph<'_>) -> Option<Vec<Bytes>>;

impl Tilings {
    /// Changes a graph that is reserved or allocated so that its plan fits the budget, if there is one. What cannot be met
    /// is logged, once; the graph is then tiled as far as it can be.
    ///
    /// # Errors
    /// [`Refusal::NoRoom`] if the graph shares tensors with one that was tiled, and has no room for theirs.
    ///
    /// # Safety
    /// `graph` is live with its tensors, no other thread uses them, and no [`GraphRef`] of it is used afterwards.
    pub unsafe fn tile_to_fit(
        &mut self,
        planner: &mut Planner,
        graph: NonNull<ggml_cgraph>,
        by_ggml: Option<ByGgml<'_>>,
    ) -> Result<(), Refusal> {
        // SAFETY: live, and used by no other thread: see "# Safety".
        if unsafe { self.to_tile(planner, graph) }.is_none() {
            return Ok(());
        }
        let ranges = AddedRanges::now();
        if has_tiled_graphs() {
            // SAFETY: live, as the caller guarantees, and read anew below.
            unsafe { undo(planner, graph, &ranges) };
        }
        // SAFETY: live, as the caller guarantees.
        let live = unsafe { GraphRef::new(graph) };
        match listed(live, &ranges) {
            Listed::None => {}
            Listed::All => {
                follow_cleared_memory(live, &ranges);
                return Ok(());
            }
            // SAFETY: live, and used by no other thread: see "# Safety"; `live` is not used any more.
            Listed::Missing => return unsafe { complete_lists(graph, &ranges) },
        }
        // SAFETY: live, and used by no other thread: see "# Safety".
        let Some(Found { known, tensors }) = (unsafe { self.found_for(planner, graph, live, by_ggml) }) else {
            return Ok(());
        };
        let (runtime, found) = (planner.runtime, &known.found);
        let before = Before::of(live, &tensors);
        // SAFETY: live, with room for the nodes, and a context with room for the tensors; `live` is not used any more.
        let add = |context| unsafe { rewrite(runtime, context, graph, found, &tensors) };
        let bytes = context_bytes(runtime, tensors_needed(found));
        if add_tensors(runtime, &tensors, bytes, add).is_none() {
            return Err(Refusal::NoMemory { buffer: "context".to_owned(), size: bytes as Bytes });
        }
        // SAFETY: live, as the caller guarantees.
        unsafe { before.remember(graph, known.by_ggml.clone()) };
        Ok(())
    }

    /// Plans the graph that [`Tilings::tile_to_fit`] would make of `graph`, whose nodes are listed in `live` in the order
    /// in which they are run, and returns its plan; `None` if it would stay as it is.
    ///
    /// # Safety
    /// `graph` is live with its tensors, and no other thread uses them.
    pub unsafe fn measure_tiled(
        &mut self,
        planner: &mut Planner,
        graph: NonNull<ggml_cgraph>,
        live: GraphRef<'_>,
    ) -> Option<GraphPlan> {
        // SAFETY: live, as the caller guarantees.
        unsafe { self.to_tile(planner, graph) }.filter(|given| !is_tiled(*given))?;
        // SAFETY: live, as the caller guarantees.
        let found = unsafe { self.found_for(planner, graph, live, None) }?;
        let reading = read(planner.runtime, &planner.types.list, live, &Requested::default());
        let draft = &found.known.found.draft;
        let planned = planner.search(&reading, &Requested::default(), |buffers, _, sizes| {
            let own: &mut dyn Sizes =
                &mut |tensor: TensorId, buffer: BufferIndex| draft.alloc_size(sizes, tensor, buffer);
            plan(&draft.graph, buffers, draft.requests(), own, Wishes::default(), &mut Workspace::default())
        });
        planned.ok()
    }

    /// Returns `true` if there is a budget, and tensors were added to the graph to keep it.
    pub fn has_tiled(&self, graph: GraphRef<'_>) -> bool {
        self.budget.is_some() && is_tiled(graph)
    }

    /// Returns the graph if it may be tiled: it is the program's own, and goes to one buffer type.
    ///
    /// # Safety
    /// `graph` is live with its tensors for `'g`, and no other thread uses them.
    unsafe fn to_tile<'g>(&self, planner: &Planner, graph: NonNull<ggml_cgraph>) -> Option<GraphRef<'g>> {
        // SAFETY: live, as the caller guarantees.
        let may_be = self.budget.is_some() && planner.types.list.len() == 1 && unsafe { GraphRef::is_whole(graph) };
        // SAFETY: live, as the caller guarantees.
        may_be.then(|| unsafe { GraphRef::new(graph) })
    }

    /// Returns how `graph` is to be tiled, whose nodes are listed in `live` in the order in which they are run; `None` if it
    /// stays as it is.
    ///
    /// # Safety
    /// `graph` is live with its tensors, and no other thread uses them.
    unsafe fn found_for<'g>(
        &mut self,
        planner: &mut Planner,
        graph: NonNull<ggml_cgraph>,
        live: GraphRef<'g>,
        by_ggml: Option<ByGgml<'_>>,
    ) -> Option<Found<'_, 'g>> {
        let budget = self.budget?;
        let fingerprint = Fingerprint::of_placed(&planner.runtime.operations, live);
        let retained = planner.retention.current().positions(live);
        let is_same = |known: &KnownTiling| known.unchanged.contains(fingerprint) && known.retained == retained;
        if self.known.select(is_same).is_some() {
            return None;
        }
        if live.nodes.iter().any(|node| node.stays_whole()) {
            self.log_shared(planner.runtime);
            return None;
        }
        // SAFETY: live, of this ggml, and used by no other thread, as the caller guarantees.
        if unsafe { Visited::of(planner.runtime, graph) }.first_missing(live).is_some() {
            self.log_listed_by_hand(planner.runtime);
            return None;
        }
        // SAFETY: live, as the caller guarantees.
        let capacity = unsafe { GraphRef::capacity(graph) }.min(self.most_nodes);
        let mut reading = read(planner.runtime, &planner.types.list, live, &Requested::default());
        retain_at(&retained, &mut reading.graph);
        let subject = subject_of(planner.runtime, &reading);
        let is_equal = |known: &KnownTiling| known.capacity == capacity && known.subject == subject;
        if self.known.select(is_equal).is_none() {
            // Graphs that cannot be planned are refused when they are planned.
            let found = planner.search(&reading, &Requested::default(), |buffers, requests, sizes| {
                search(&subject, buffers, requests, sizes, (budget, capacity))
            });
            let found = found.ok()?;
            let by_ggml = by_ggml.filter(|_| !found.tiled.is_empty());
            let by_ggml = by_ggml.and_then(|by_ggml| by_ggml(planner, live, &reading));
            log_tiling(planner.runtime, &found, budget, capacity);
            let unchanged = Served::default();
            self.known.add(KnownTiling { subject, retained, capacity, found, by_ggml, unchanged });
        }
        let known = self.known.current_mut()?;
        if !known.found.is_changed {
            known.unchanged.add(fingerprint);
            return None;
        }
        Some(Found { known, tensors: reading.tensors })
    }

    /// Logs, once for each allocator, that graphs of nodes that the program lists itself stay whole: ggml could not add
    /// nodes to them without listing unvisited ones again.
    fn log_listed_by_hand(&mut self, runtime: &Runtime) {
        if !std::mem::replace(&mut self.has_logged_lists, true) {
            runtime.log_warning(&format!(
                "{SIGNATURE}LASTUSE_BUDGET: graphs that are not built by ggml_build_forward_expand stay whole, whatever \
                 they need\n"
            ));
        }
    }

    /// Logs, once for each allocator, that graphs that share tensors stay whole: each would change what the others compute.
    fn log_shared(&mut self, runtime: &Runtime) {
        if !std::mem::replace(&mut self.has_logged_shared, true) {
            runtime.log_warning(&format!(
                "{SIGNATURE}LASTUSE_BUDGET: graphs that share large tensors, or whose large tensors are retained or dedicated \
                 after they were reserved, stay whole, whatever they need\n"
            ));
        }
    }
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

/// Logs the result of a search; a budget that is not met is logged once for each number of bytes.
fn log_tiling(runtime: &Runtime, found: &TiledGraph, budget: Bytes, capacity: usize) {
    static LOGGED: Lock<Vec<Bytes>> = Lock::new(Vec::new());
    if !found.tiled.is_empty() {
        runtime.log(Level::Info, || {
            let (tilings, before, after) = (found.tiled.len(), exact(found.before), exact(found.after));
            format!(
                "{SIGNATURE}LASTUSE_BUDGET: {tilings} intermediates are computed in tiles: {before} become {after}\n"
            )
        });
    }
    let mut logged = LOGGED.lock();
    if found.after <= budget || logged.contains(&found.after) || logged.len() == MOST_LOGGED {
        return;
    }
    logged.push(found.after);
    drop(logged);
    runtime.log_warning(&format!(
        "{SIGNATURE}LASTUSE_BUDGET: no graph was found that fits {budget} bytes and has room in the {capacity} nodes \
         of the program's graph: {} bytes are the least that were found, and are used\n",
        found.after
    ));
}
