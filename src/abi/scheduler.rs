//! `lastuse_sched_*`: graphs of programs on a scheduler, before it gets them.

use std::ptr::{NonNull, null_mut};

use crate::ggml::{ggml_backend_sched, ggml_cgraph, scheduler};

use super::arguments::ggml_of_graph;
use super::call::{fail, total};

/// Returns the graph_size to make a scheduler with (ggml_backend_sched_new), so that it has room for the nodes that
/// lastuse_sched_prepare adds to graphs of graph_size nodes and leafs: graph_size itself if nothing asks for that.
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_sched_room(graph_size: usize) -> usize {
    total("lastuse_sched_room", |_| scheduler::room_for(graph_size))
}

/// Changes a graph as LASTUSE_REORDER and LASTUSE_BUDGET say. Call it before sched reserves (reserves: true), allocates or computes the
/// graph, each time; room is the graph_size that sched was made with. Has no effect on a graph that is allocated, or that was changed
/// before, and on schedulers with several backends. Returns false if the graph must not be computed. The guard that lastuse run
/// preloads calls it for programs that know nothing of lastuse. docs/tiling.md has what a program may rely on.
///
/// # Safety
/// `sched` and `graph` with its tensors are live, and no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_sched_prepare(
    sched: *mut ggml_backend_sched,
    graph: *mut ggml_cgraph,
    room: usize,
    reserves: bool,
) -> bool {
    total("lastuse_sched_prepare", |call| {
        let (sched, graph) = (call.required("sched", sched), call.required("graph", graph));
        // SAFETY: live, and of this thread: see "# Safety".
        let Ok(ggml) = (unsafe { ggml_of_graph(null_mut(), graph) }) else { return true };
        let Some(runtime) = ggml.served() else { return true };
        // SAFETY: live, and of this thread: see "# Safety".
        let prepared = unsafe { scheduler::prepare(runtime, sched, graph, room, (reserves, ggml.events.is_some())) };
        prepared.inspect_err(|why| fail(call.name, why)).is_ok()
    })
}

/// Gives a graph that lastuse_sched_prepare has tiled back as the program has built it. Call it after the graph was reserved, and not
/// if it is allocated.
///
/// # Safety
/// `graph` with its tensors is live, and no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_sched_restore(graph: *mut ggml_cgraph) {
    total("lastuse_sched_restore", |call| {
        let graph = call.required("graph", graph);
        // SAFETY: live, and of this thread: see "# Safety".
        let ggml = unsafe { ggml_of_graph(null_mut(), graph) };
        // Only graphs of a known layout can be read, and have been tiled.
        if ggml.is_ok_and(|ggml| ggml.served().is_some()) {
            // SAFETY: as above.
            unsafe { scheduler::restore(graph) };
        }
    });
}

/// Forgets a scheduler that is being freed. Does nothing for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_sched_forget(sched: *mut ggml_backend_sched) {
    total("lastuse_sched_forget", |_| NonNull::new(sched).into_iter().for_each(scheduler::forget));
}
