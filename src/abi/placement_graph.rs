//! Graphs of `lastuse_placement_*`: by what they need, and for what they are placed.

use std::ffi::c_int;

use crate::ggml::{ggml_backend_sched, ggml_cgraph};

use super::abort::{abort_on_panic, required};
use super::last_error::fail;
use super::placement::{lastuse_placement, placement_to_change, placement_to_look_at};

/// Adds a graph that the devices have to have room for, such as that of the largest batch and that of a single token.
/// Returns its number, from 0.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // nothing has memory yet
/// struct lastuse_placement * placement = lastuse_placement_new(NULL);
/// for (int i = 0; i < 2; i++) {
///     struct ggml_tensor * input = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, i == 0 ? 512 : 1);
///     struct ggml_cgraph * graph = ggml_new_graph(ctx);
///     ggml_build_forward_expand(graph, ggml_soft_max(ctx, input));
///     GGML_ASSERT(lastuse_placement_add_graph(placement, graph) == i);
/// }
/// lastuse_placement_free(placement);
/// ggml_set_no_alloc(ctx, false);
/// ```
///
/// The graph is as the program builds it, before a scheduler has split it. It is read by lastuse_placement_solve and by
/// the functions below. Returns -1, with the reason in lastuse_last_error and in ggml's log, in a callback of
/// lastuse_placement_solve. Aborts if an argument is NULL.
///
/// # Safety
/// `placement` comes from lastuse_placement_new, and no other thread uses it; `graph` is live, and stays so until
/// lastuse_placement_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_placement_add_graph(
    placement: *mut lastuse_placement,
    graph: *mut ggml_cgraph,
) -> c_int {
    const NAME: &str = "lastuse_placement_add_graph";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let placement = unsafe { placement_to_change(NAME, placement) };
        let graph = required(graph, NAME, "graph");
        let Some(mut placement) = placement else { return -1 };
        c_int::try_from(placement.planner.add_graph(graph)).unwrap_or(c_int::MAX)
    })
}

/// Writes the buffer ids of a graph for ggml_gallocr_reserve_n: for each node and each leaf, the number of the device
/// that it is on. Returns true if they were written.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // nothing has memory yet
/// struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4096);
/// ggml_set_input(input);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, ggml_sqr(ctx, ggml_scale(ctx, input, 2.0f)));
///
/// struct lastuse_placement_params params;
/// memset(&params, 0, sizeof(params));
/// params.struct_size = sizeof(params);
/// params.direct      = true; // no scheduler: the program allocates the graph
/// struct lastuse_placement *      placement = lastuse_placement_new(&params);
/// struct lastuse_placement_device host;
/// memset(&host, 0, sizeof(host));
/// host.struct_size = sizeof(host);
/// host.budget      = 100000;
/// host.backend     = backend;
/// lastuse_placement_add_device(placement, &host);
/// lastuse_placement_add_graph(placement, graph);
/// GGML_ASSERT(lastuse_placement_solve(placement));
///
/// int node_ids[2], leaf_ids[1];
/// GGML_ASSERT(lastuse_placement_buffer_ids(placement, 0, node_ids, leaf_ids));
/// ggml_backend_buffer_type_t type   = ggml_backend_get_default_buffer_type(backend);
/// ggml_gallocr_t             galloc = ggml_gallocr_new_n(&type, 1);
/// GGML_ASSERT(ggml_gallocr_reserve_n(galloc, graph, node_ids, leaf_ids));
/// GGML_ASSERT(ggml_gallocr_get_buffer_size(galloc, 0) <= 100000);
/// ggml_gallocr_free(galloc);
/// lastuse_placement_free(placement);
/// ggml_set_no_alloc(ctx, false);
/// ```
///
/// The bytes that ggml_gallocr_reserve_n then takes of each buffer are those of the placement if direct was set in its
/// parameters; a scheduler adds copies to the graph, and has ids of its own. node_ids has room for a number for each
/// node of the graph, leaf_ids for each leaf; either may be NULL if it is not wanted.
///
/// Returns false, with nothing written and the reason in lastuse_last_error and in ggml's log, if there is no such graph
/// or nothing has been placed, and for the reasons of lastuse_placement_solve. Aborts if placement is NULL.
///
/// # Safety
/// `placement` comes from lastuse_placement_new, and no other thread uses it, its graphs and tensors; the graphs were
/// not changed or scheduled since lastuse_placement_solve; the lists have the lengths given above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_placement_buffer_ids(
    placement: *const lastuse_placement,
    graph: c_int,
    node_ids: *mut c_int,
    leaf_ids: *mut c_int,
) -> bool {
    const NAME: &str = "lastuse_placement_buffer_ids";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let Some(placement) = (unsafe { placement_to_look_at(NAME, placement) }) else { return false };
        let Some(graph) = graph_index(NAME, placement.planner.graphs().len(), graph) else { return false };
        // SAFETY: live graphs, as the caller guarantees.
        let Some(runtime) = (unsafe { placement.runtime(NAME) }) else { return false };
        // SAFETY: live graphs that were not changed, as the caller guarantees.
        let found = unsafe { placement.planner.residences(runtime, graph) };
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

/// Applies a placement to a scheduler: assigns each node of a graph to the backend of its device, by
/// ggml_backend_sched_set_tensor_backend. Returns true if that was done.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // nothing has memory yet
/// struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4096);
/// ggml_set_input(input);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, ggml_sqr(ctx, ggml_scale(ctx, input, 2.0f)));
///
/// struct lastuse_placement *      placement = lastuse_placement_new(NULL);
/// struct lastuse_placement_device host;
/// memset(&host, 0, sizeof(host));
/// host.struct_size = sizeof(host);
/// host.budget      = 100000;
/// host.backend     = backend;
/// lastuse_placement_add_device(placement, &host);
/// lastuse_placement_add_graph(placement, graph);
/// GGML_ASSERT(lastuse_placement_solve(placement));
/// struct lastuse_placement_memory memory;
/// memset(&memory, 0, sizeof(memory));
/// memory.struct_size = sizeof(memory);
/// GGML_ASSERT(lastuse_placement_memory_get(placement, 0, &memory));
///
/// ggml_backend_sched_t sched = ggml_backend_sched_new(&backend, NULL, 1, 64, false, true);
/// GGML_ASSERT(lastuse_placement_apply(placement, 0, sched));
/// GGML_ASSERT(ggml_backend_sched_alloc_graph(sched, graph));
/// GGML_ASSERT(ggml_backend_sched_get_buffer_size(sched, backend) == memory.compute_size);
/// ggml_backend_sched_free(sched);
/// lastuse_placement_free(placement);
/// ggml_set_no_alloc(ctx, false);
/// ```
///
/// The devices are the backends of the scheduler, in their order. The program puts weights and caches into buffers of
/// their devices before (lastuse_placement_item_device), and calls this after ggml_backend_sched_reset and before the
/// graph is reserved or allocated; the compute buffers are then those of the placement. With the rule
/// LASTUSE_PLACEMENT_SCHEDULER the scheduler decides the same by itself, if it supports what was assumed. Assignments
/// last until ggml_backend_sched_reset.
///
/// Returns false, with nothing assigned and the reason in lastuse_last_error and in ggml's log, if there is no such
/// graph or nothing has been placed; if the scheduler has another number of backends than there are devices; with the
/// rule LASTUSE_PLACEMENT_POWERINFER, which keeps results where no scheduler does; and for the reasons of
/// lastuse_placement_solve. Aborts if placement or sched is NULL.
///
/// # Safety
/// `placement` comes from lastuse_placement_new; `sched` is live; no other thread uses them, nor the graphs and their
/// tensors; the graphs were not changed or scheduled since lastuse_placement_solve.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_placement_apply(
    placement: *const lastuse_placement,
    graph: c_int,
    sched: *mut ggml_backend_sched,
) -> bool {
    const NAME: &str = "lastuse_placement_apply";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let placement = unsafe { placement_to_look_at(NAME, placement) };
        let sched = required(sched, NAME, "sched");
        let Some(placement) = placement else { return false };
        let Some(graph) = graph_index(NAME, placement.planner.graphs().len(), graph) else { return false };
        // SAFETY: live graphs, as the caller guarantees.
        let Some(runtime) = (unsafe { placement.runtime(NAME) }) else { return false };
        // SAFETY: live, not changed, and of this thread, as the caller guarantees.
        let applied = unsafe { placement.planner.apply(runtime, graph, sched) };
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
