//! The passes over graphs of programs on a scheduler (`ggml_backend_sched`): `LASTUSE_REORDER`, `LASTUSE_BUDGET` and
//! `LASTUSE_RECOMPUTE`.
//!
//! A scheduler copies a graph, assigns each node to a backend, and splits the copy where backends change, before its allocator
//! sees anything. Nodes that are added later would be in no split. So a graph is changed before the scheduler gets it: the passes
//! are those of an allocator that the program uses itself, with the buffer types and the rules of the scheduler's allocator. Another
//! backend might compute a tile with other bits than the whole. So a scheduler with several is asked which one computes the whole
//! ([`backends`]), and each node of the changed graph is assigned to that. A new order of the nodes is measured with it first.

mod backends;

use std::ptr::NonNull;

use crate::ggml::allocator::{Assignment, Passes, Planner, backends_of, is_changed, undo_reserved};
use crate::ggml::bindings::{ggml_backend, ggml_backend_sched, ggml_cgraph};
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::lock::Lock;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::process::settings::settings;
use crate::ggml::refusal::Refusal;
pub use backends::Measure;
use backends::{Adviser, BeforeSplit, LiveScheduler};

/// The most nodes that a scheduler has room for beyond those of its graphs: it takes some kilobytes for each.
const MOST_ADDED: usize = 16_384;

/// A scheduler whose graphs may be changed.
#[derive(Debug)]
struct Scheduler {
    address: usize,
    /// `None` if its graphs stay as they are.
    passes: Option<(Planner, Box<Passes>)>,
    /// What is asked if it has several backends.
    adviser: Option<Adviser>,
}

// SAFETY: buffer types are used by any thread, as ggml's own schedulers use them; a scheduler is used by one thread at a time.
unsafe impl Send for Scheduler {}

/// Those of the process. The one whose graph is being changed is not among them: no other thread uses it.
static SCHEDULERS: Lock<Vec<Scheduler>> = Lock::new(Vec::new());

/// Returns the size with which a scheduler is made for graphs of `graph_size` nodes and leafs, so that it has room for what passes
/// add.
pub fn room_for(graph_size: usize) -> usize {
    let settings = settings();
    let adds = !settings.budget.is_none() || settings.recompute.is_some();
    let added = if adds { graph_size.saturating_mul(2).min(MOST_ADDED) } else { 0 };
    graph_size.saturating_add(added)
}

/// Changes a graph as the settings say, before `scheduler` reserves, allocates or computes it; the scheduler was made for graphs
/// of `room` nodes and leafs, and moves operations to devices if it `offloads`. A graph that is allocated stays as it is, and so
/// does one that was changed before. If plans `are_compared`, what ggml-alloc needs for the given graph is kept for the report. A graph that `is_reserved` is given back by
/// [`restore`] afterwards. `measure` compares orders of the nodes on several backends.
///
/// # Errors
/// Those of a pass. The graph must not be computed then.
///
/// # Safety
/// `scheduler` and `graph` with its tensors are live and of this ggml, no other thread uses them, and no [`GraphRef`] of the
/// graph is used afterwards.
pub unsafe fn prepare(
    runtime: &'static Runtime,
    scheduler: NonNull<ggml_backend_sched>,
    graph: NonNull<ggml_cgraph>,
    (room, offloads): (usize, bool),
    (is_reserved, are_compared): (bool, bool),
    measure: Measure<'_>,
) -> Result<(), Refusal> {
    // SAFETY: live, as the caller guarantees.
    let live = unsafe { GraphRef::new(graph) };
    if live.nodes.iter().all(|node| !node.data().is_null()) {
        return Ok(());
    }
    let most_nodes = room.saturating_sub(live.leafs.len());
    // SAFETY: live, as the caller guarantees.
    let mut used = take(scheduler)
        .unwrap_or_else(|| unsafe { Scheduler::new(runtime, scheduler, (room, offloads), are_compared) });
    let changed = match &mut used.passes {
        Some((planner, passes)) => {
            passes.limit_nodes(most_nodes);
            if let Some(adviser) = &used.adviser {
                // SAFETY: live, and not used otherwise, as the caller guarantees.
                let scheduler = unsafe { LiveScheduler::new(runtime, scheduler) };
                // SAFETY: as above; the graph is not allocated.
                unsafe { prepare_for_several((scheduler, adviser), planner, passes, graph, measure) }
            } else if is_reserved {
                // SAFETY: live, and not used otherwise, as the caller guarantees.
                unsafe { passes.before_reserving(planner, graph, &mut None, None) }
            } else {
                // SAFETY: as above.
                unsafe { passes.before_allocating(planner, graph) }
            }
        }
        None => Ok(()),
    };
    SCHEDULERS.lock().push(used);
    changed
}

/// Changes a graph of a scheduler with several backends, and assigns its nodes.
///
/// # Errors
/// Those of a pass.
///
/// # Safety
/// The promises of [`prepare`]; the graph is not allocated, nor is another one in the scheduler.
unsafe fn prepare_for_several(
    (scheduler, adviser): (LiveScheduler, &Adviser),
    planner: &mut Planner,
    passes: &mut Passes,
    graph: NonNull<ggml_cgraph>,
    measure: Measure<'_>,
) -> Result<(), Refusal> {
    // SAFETY: live, and used by no other thread, as the caller guarantees.
    let is_known = is_changed(unsafe { GraphRef::new(graph) });
    if !is_known {
        // SAFETY: as above.
        let mut assignment = unsafe { scheduler.ask(adviser, graph, &[]) };
        // SAFETY: as above.
        unsafe { reorder_on_several((scheduler, adviser), planner, passes, (graph, &assignment), measure) };
        // SAFETY: as above.
        if !unsafe { passes.fit(planner, graph, Some(&mut assignment)) }? {
            return Ok(());
        }
    }
    let backends = scheduler.backends();
    // SAFETY: as above.
    let Some(nodes) = (unsafe { backends_of(graph) }) else { return Ok(()) };
    let assigned = nodes.into_iter().filter_map(|(node, at)| Some((node, backends.get(at)?.0)));
    let assigned: Vec<(TensorRef<'_>, *mut ggml_backend)> = assigned.collect();
    // A scheduler may move a node that is assigned to another backend of the same memory, if that supports it.
    // SAFETY: as above.
    let asked_again = if is_known { None } else { Some(unsafe { scheduler.ask(adviser, graph, &assigned) }) };
    if asked_again.as_ref().is_none_or(|asked| has_kept(asked, &assigned, &backends)) {
        scheduler.assign(assigned);
    } else {
        drop(assigned);
        // SAFETY: as above, and not allocated.
        unsafe { undo_reserved(graph) };
    }
    Ok(())
}

/// Returns `true` if nodes are on the backends that they were assigned to.
fn has_kept(
    asked: &Assignment,
    assigned: &[(TensorRef<'_>, *mut ggml_backend)],
    backends: &[(*mut ggml_backend, BufferType)],
) -> bool {
    assigned.iter().all(|(node, backend)| asked.of(*node).is_none_or(|at| backends[at].0 == *backend))
}

/// Puts the nodes of a graph of several backends into an order with a lower peak, each on the backend that it would be on, if no backend
/// needs more then, copies included, and there are no more splits.
///
/// # Safety
/// The promises of [`prepare`]; the graph is not allocated, nor is another one in the scheduler.
unsafe fn reorder_on_several(
    (scheduler, adviser): (LiveScheduler, &Adviser),
    planner: &mut Planner,
    passes: &mut Passes,
    (graph, assignment): (NonNull<ggml_cgraph>, &Assignment),
    measure: Measure<'_>,
) {
    // SAFETY: live, and used by no other thread, as the caller guarantees.
    let Some(ordered) = (unsafe { passes.order_of_several(planner, graph, assignment) }) else { return };
    // SAFETY: as above.
    let given = unsafe { GraphRef::new(graph) }.nodes.to_vec();
    if assignment.changes(&ordered) > assignment.changes(&given) {
        return;
    }
    let backends = scheduler.backends();
    let assigned = given.iter().filter_map(|&node| Some((node, backends.get(assignment.of(node)?)?.0)));
    let assigned: Vec<(TensorRef<'_>, *mut ggml_backend)> = assigned.collect();
    // SAFETY: as above.
    let before = unsafe { adviser.measured(graph, &assigned, measure) };
    // SAFETY: live, with the same nodes; no `GraphRef` of it is used from here on.
    unsafe { GraphRef::set_nodes(graph, &ordered) };
    // SAFETY: as above.
    let asked = unsafe { scheduler.ask(adviser, graph, &assigned) };
    // SAFETY: as above.
    let after = unsafe { adviser.measured(graph, &assigned, measure) };
    let is_smaller = before.zip(after).is_some_and(|(before, after)| {
        let mut pairs = before.iter().zip(&after);
        before != after && pairs.all(|(before, after)| after <= before)
    });
    if is_smaller && has_kept(&asked, &assigned, &backends) {
        scheduler.assign(assigned);
    } else {
        // SAFETY: as above.
        unsafe { GraphRef::set_nodes(graph, &given) };
    }
}

/// Gives a graph back as the program has built it, after it was reserved: the program may add nodes to it, or give it to another
/// scheduler.
///
/// # Safety
/// `graph` is live with its tensors, no other thread uses them, and no [`GraphRef`] of it is used afterwards.
pub unsafe fn restore(graph: NonNull<ggml_cgraph>) {
    // SAFETY: live, as the caller guarantees.
    if unsafe { GraphRef::new(graph) }.nodes.iter().any(|node| node.data().is_null()) {
        // SAFETY: as above.
        unsafe { undo_reserved(graph) };
    }
}

/// Has a scheduler ask its allocator for the bytes of its first buffer, if this ggml has a function for that.
///
/// # Safety
/// `scheduler` is live and of this ggml, and no other thread uses it.
pub unsafe fn call_allocator(runtime: &'static Runtime, scheduler: NonNull<ggml_backend_sched>) {
    // SAFETY: live, as the caller guarantees.
    let backends = unsafe { LiveScheduler::new(runtime, scheduler) }.backends();
    let function = runtime.functions.ggml_backend_sched_get_buffer_size;
    if let Some((function, (backend, _))) = function.zip(backends.first()) {
        // SAFETY: a live scheduler and one of its backends.
        unsafe { function(scheduler.as_ptr(), *backend) };
    }
}

/// Has a scheduler reserve a graph, if this ggml has a function for that. The graph is as it was afterwards, so that it can be reserved
/// again: with several backends, a scheduler leaves copies in it that are in its own memory.
///
/// # Safety
/// `scheduler` and `graph` with its tensors are live and of this ggml, and no other thread uses them; no graph is allocated in the
/// scheduler.
pub unsafe fn reserve(runtime: &'static Runtime, scheduler: NonNull<ggml_backend_sched>, graph: NonNull<ggml_cgraph>) {
    if let Some(function) = runtime.functions.ggml_backend_sched_reserve {
        // SAFETY: live, as the caller guarantees.
        let given = BeforeSplit::of(unsafe { GraphRef::new(graph) });
        // SAFETY: as above.
        unsafe { function(scheduler.as_ptr(), graph.as_ptr()) };
        // SAFETY: as above; the scheduler has dropped its copies.
        drop(unsafe { given.restore(graph) });
    }
}

/// Forgets a scheduler that is being freed.
pub fn forget(scheduler: NonNull<ggml_backend_sched>) {
    drop(take(scheduler));
}

fn take(scheduler: NonNull<ggml_backend_sched>) -> Option<Scheduler> {
    let mut all = SCHEDULERS.lock();
    let at = all.iter().position(|known| known.address == scheduler.as_ptr().addr())?;
    Some(all.swap_remove(at))
}

impl Scheduler {
    /// # Safety
    /// `scheduler` is live and of this ggml, and no other thread uses it.
    unsafe fn new(
        runtime: &'static Runtime,
        scheduler: NonNull<ggml_backend_sched>,
        (room, offloads): (usize, bool),
        are_compared: bool,
    ) -> Self {
        let settings = settings();
        // SAFETY: live, as the caller guarantees.
        let live = unsafe { LiveScheduler::new(runtime, scheduler) };
        let types: Vec<_> = live.backends().into_iter().map(|(_, buffer_type)| buffer_type).collect();
        let planner = Planner::new(runtime, &types, &settings);
        let mut passes = Passes::new(&settings, are_compared);
        // The allocator of a scheduler cannot change a graph any more.
        passes.iter_mut().for_each(|passes| passes.try_buffers());
        let has_several = types.len() > 1 && passes.is_some();
        let adviser = if has_several { Adviser::new(live, room, offloads) } else { None };
        let is_known = !types.is_empty() && has_several == adviser.is_some();
        let passes = passes.filter(|_| is_known).map(|passes| (planner, passes));
        Self { address: scheduler.as_ptr().addr(), passes, adviser }
    }
}
