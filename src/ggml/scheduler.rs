//! The passes over graphs of programs on a scheduler (`ggml_backend_sched`): `LASTUSE_REORDER` and `LASTUSE_BUDGET`.
//!
//! A scheduler copies a graph, assigns each node to a backend, and splits the copy where backends change, before its allocator
//! sees anything. Nodes that are added later would be in no split. So a graph is changed before the scheduler gets it: the passes
//! are those of an allocator that the program uses itself, with the buffer type and the rules of the scheduler's allocator. Several
//! backends might not compute a tile where they compute the whole, with other bits, even if they share a buffer type (BLAS): their
//! graphs stay as they are.

use std::ptr::NonNull;

use crate::ggml::allocator::{Passes, Planner, undo_reserved};
use crate::ggml::bindings::{ggml_backend_sched, ggml_cgraph};
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::lock::Lock;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::process::settings::settings;
use crate::ggml::refusal::Refusal;
use crate::ggml::version::SIGNATURE;

/// The most nodes that a scheduler has room for beyond those of its graphs: it takes some kilobytes for each.
const MOST_ADDED: usize = 16_384;

/// A scheduler whose graphs may be changed.
#[derive(Debug)]
struct Scheduler {
    address: usize,
    /// `None` if its graphs stay as they are.
    passes: Option<(Planner, Box<Passes>)>,
}

// SAFETY: buffer types are used by any thread, as ggml's own schedulers use them; a scheduler is used by one thread at a time.
unsafe impl Send for Scheduler {}

/// Those of the process. The one whose graph is being changed is not among them: no other thread uses it.
static SCHEDULERS: Lock<Vec<Scheduler>> = Lock::new(Vec::new());

/// Returns the size with which a scheduler is made for graphs of `graph_size` nodes and leafs, so that it has room for what passes
/// add.
pub fn room_for(graph_size: usize) -> usize {
    let added = if settings().budget.is_some() { graph_size.saturating_mul(2).min(MOST_ADDED) } else { 0 };
    graph_size.saturating_add(added)
}

/// Changes a graph as the settings say, before `scheduler` reserves, allocates or computes it; the scheduler was made for graphs
/// of `room` nodes and leafs. A graph that is allocated stays as it is, and so does one that was changed before. If plans
/// `are_compared`, what ggml-alloc needs for the given graph is kept for the report. A graph that `is_reserved` is given back by
/// [`restore`] afterwards.
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
    room: usize,
    (is_reserved, are_compared): (bool, bool),
) -> Result<(), Refusal> {
    // SAFETY: live, as the caller guarantees.
    let live = unsafe { GraphRef::new(graph) };
    if live.nodes.iter().all(|node| !node.data().is_null()) {
        return Ok(());
    }
    let most_nodes = room.saturating_sub(live.leafs.len());
    // SAFETY: live, as the caller guarantees.
    let mut used = take(scheduler).unwrap_or_else(|| unsafe { Scheduler::new(runtime, scheduler, are_compared) });
    let changed = match &mut used.passes {
        Some((planner, passes)) => {
            passes.limit_nodes(most_nodes);
            if is_reserved {
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
    unsafe fn new(runtime: &'static Runtime, scheduler: NonNull<ggml_backend_sched>, are_compared: bool) -> Self {
        let settings = settings();
        // SAFETY: live, as the caller guarantees.
        let types = unsafe { buffer_types(runtime, scheduler) };
        let planner = Planner::new(runtime, &types, &settings);
        let mut passes = Passes::new(&settings, are_compared);
        if types.len() != 1 && passes.take().is_some() {
            runtime.log_warning(&format!(
                "{SIGNATURE}LASTUSE_BUDGET and LASTUSE_REORDER have no effect on schedulers with several backends: their graphs stay \
                 as they are\n"
            ));
        }
        Self { address: scheduler.as_ptr().addr(), passes: passes.map(|passes| (planner, passes)) }
    }
}

/// Returns the buffer types of the backends of a scheduler, in the order of the backends; none if this ggml does not tell them.
///
/// # Safety
/// `scheduler` is live and of this ggml.
unsafe fn buffer_types(runtime: &'static Runtime, scheduler: NonNull<ggml_backend_sched>) -> Vec<BufferType> {
    let functions = &runtime.functions;
    let Some((count, backend)) =
        functions.ggml_backend_sched_get_n_backends.zip(functions.ggml_backend_sched_get_backend)
    else {
        return Vec::new();
    };
    let scheduler = scheduler.as_ptr();
    // SAFETY: a live scheduler, as the caller guarantees.
    let backends = 0..unsafe { count(scheduler) };
    let of_backend = |at| {
        // SAFETY: a live scheduler with that backend.
        let backend = unsafe { backend(scheduler, at) };
        let found = match functions.ggml_backend_sched_get_buffer_type {
            // SAFETY: a live scheduler and one of its backends.
            Some(type_of) => unsafe { type_of(scheduler, backend) },
            // SAFETY: a live backend.
            None => unsafe { (functions.ggml_backend_get_default_buffer_type)(backend) },
        };
        // SAFETY: a buffer type of this ggml, which outlives its schedulers.
        NonNull::new(found).map(|found| unsafe { BufferType::new(runtime, found) })
    };
    backends.filter_map(of_backend).collect()
}
