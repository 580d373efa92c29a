//! Graphs of `lastuse_offload_*`: by what they need, and for what they are placed.

use std::ffi::c_int;

use crate::ggml::{ggml_backend_sched, ggml_cgraph};

use super::abort::{abort_on_panic, required};
use super::last_error::fail;
use super::offload::{lastuse_offload, offload_to_change, offload_to_look_at};

/// Adds a graph that the devices have to have room for, such as that of the largest batch and that of a single token,
/// as the program builds it, before a scheduler has split it. Returns its number, from 0; -1 in a callback of
/// lastuse_offload_solve. The graph lives until lastuse_offload_free.
///
/// # Safety
/// `offload` comes from lastuse_offload_new, and no other thread uses it; `graph` is live, and stays so until
/// lastuse_offload_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_offload_add_graph(offload: *mut lastuse_offload, graph: *mut ggml_cgraph) -> c_int {
    const NAME: &str = "lastuse_offload_add_graph";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let offload = unsafe { offload_to_change(NAME, offload) };
        let graph = required(graph, NAME, "graph");
        let Some(mut offload) = offload else { return -1 };
        c_int::try_from(offload.planner.add_graph(graph)).unwrap_or(c_int::MAX)
    })
}

/// Writes the buffer ids of a graph for ggml_gallocr_reserve_n: for each node and each leaf, the number of the device
/// that it is on. Either list may be NULL. If direct was set in the parameters, the reservation takes the bytes of the
/// offload. The graphs must not have been changed or scheduled since lastuse_offload_solve. Returns false if there
/// is no such graph, nothing has been placed, or lastuse_offload_solve would fail.
///
/// # Safety
/// `offload` comes from lastuse_offload_new, and no other thread uses it, its graphs and tensors; the graphs were
/// not changed or scheduled since lastuse_offload_solve; the lists are NULL, or have an
/// entry for each node and each leaf of the graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_offload_buffer_ids(
    offload: *const lastuse_offload,
    graph: c_int,
    node_ids: *mut c_int,
    leaf_ids: *mut c_int,
) -> bool {
    const NAME: &str = "lastuse_offload_buffer_ids";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let Some(offload) = (unsafe { offload_to_look_at(NAME, offload) }) else { return false };
        let Some(graph) = graph_index(NAME, offload.planner.graphs().len(), graph) else { return false };
        // SAFETY: live graphs, as the caller guarantees.
        let Some(runtime) = (unsafe { offload.runtime(NAME) }) else { return false };
        // SAFETY: live graphs that were not changed, as the caller guarantees.
        let found = unsafe { offload.planner.residences(runtime, graph) };
        let found = found.inspect_err(|why| fail(NAME, why));
        let Ok([leafs, nodes]) = found else { return false };
        for (ids, list) in [(leaf_ids, leafs), (node_ids, nodes)] {
            for (at, device) in list.into_iter().enumerate().filter(|_| !ids.is_null()) {
                // SAFETY: room for a number for each leaf or node, as the caller guarantees.
                unsafe { ids.wrapping_add(at).write(c_int::try_from(device).unwrap_or(0)) };
            }
        }
        true
    })
}

/// Applies an offload plan to a scheduler: assigns each node of a graph to the backend of its device, until
/// ggml_backend_sched_reset. Called after ggml_backend_sched_reset, with weights and caches in buffers of their
/// devices, and before the graph is reserved or allocated; the compute buffers are then those of the offload plan.
///
/// Returns false, with nothing assigned, if there is no such graph or nothing has been placed, if the scheduler has
/// another number of backends than there are devices, with LASTUSE_OFFLOAD_POWERINFER, and for the reasons of
/// lastuse_offload_solve. The graphs must not have been changed or scheduled since that.
///
/// # Safety
/// `offload` comes from lastuse_offload_new; `sched` is live; no other thread uses them, nor the graphs and their
/// tensors; the graphs were not changed or scheduled since lastuse_offload_solve.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_offload_apply(
    offload: *const lastuse_offload,
    graph: c_int,
    sched: *mut ggml_backend_sched,
) -> bool {
    const NAME: &str = "lastuse_offload_apply";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let offload = unsafe { offload_to_look_at(NAME, offload) };
        let sched = required(sched, NAME, "sched");
        let Some(offload) = offload else { return false };
        let Some(graph) = graph_index(NAME, offload.planner.graphs().len(), graph) else { return false };
        // SAFETY: live graphs, as the caller guarantees.
        let Some(runtime) = (unsafe { offload.runtime(NAME) }) else { return false };
        // SAFETY: live, not changed, and of this thread, as the caller guarantees.
        let applied = unsafe { offload.planner.apply(runtime, graph, sched) };
        applied.inspect_err(|why| fail(NAME, why)).is_ok()
    })
}

/// Returns the number of a graph; `None`, with the last error set and logged, if there is none.
fn graph_index(function: &str, count: usize, graph: c_int) -> Option<usize> {
    let found = usize::try_from(graph).ok().filter(|&at| at < count);
    if found.is_none() {
        fail(function, &format_args!("there is no graph {graph}; there are {count}"));
    }
    found
}
