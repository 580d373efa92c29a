//! `lastuse_graph_reorder`: another order for the nodes of a graph.

use std::ffi::c_int;
use std::ptr::NonNull;

use crate::ggml::{BufferType, GraphRef, Reordered, Runtime, Server, reorder_nodes};
use crate::ggml::{ggml_backend_buffer_type, ggml_cgraph};
use crate::graph::order::{Effort, Measure};
use crate::placement::Bytes;

use super::whose::ggml_of_graph;
use super::{checked_report, guard, refuse, required};

/// What lastuse_graph_reorder found. The caller sets struct_size and zeroes the rest.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_reorder_report {
    /// sizeof(struct lastuse_reorder_report): which fields there are. Later versions may add some at the end.
    pub struct_size: usize,
    /// Bytes alive at the worst step in the given order: no plan for it is smaller.
    pub lower_bound_before: usize,
    /// The same in the new order.
    pub lower_bound_after: usize,
    /// Bytes of the plan for the given order, as ggml_gallocr_reserve would make it.
    pub size_before: usize,
    /// The same for the new order.
    pub size_after: usize,
    /// How many nodes had to be moved; 0 when the order stays as it was.
    pub nodes_moved: c_int,
}

/// Puts the nodes of a graph into an order in which fewer bytes are alive at the worst step, so that the graph needs a
/// smaller compute buffer. True when the order was changed; false when no better one was found, when sizes overflow, and
/// when lastuse is not enabled. The graph computes the same to the last bit on backends that run node by node: whatever
/// reads or writes the same memory keeps its order, through views and where tensors that have memory overlap, nothing passes
/// a node that runs a function of the program, and the last node stays the last. No plan gets larger.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will lie in the compute buffer
/// struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
/// ggml_set_input(input);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// struct ggml_tensor * wide[2];
/// for (int i = 0; i < 2; i++) {
///     wide[i] = ggml_pad(ctx, ggml_scale(ctx, input, i + 1.0f), 65536, 0, 0, 0);
///     ggml_build_forward_expand(graph, wide[i]); // in this order both are alive at once
/// }
/// ggml_build_forward_expand(graph, ggml_add(ctx, ggml_sum(ctx, wide[0]), ggml_sum(ctx, wide[1])));
///
/// struct lastuse_reorder_report report;
/// memset(&report, 0, sizeof(report));
/// report.struct_size = sizeof(report);
/// if (lastuse_graph_reorder(graph, ggml_backend_get_default_buffer_type(backend), 0, &report)) {
///     GGML_ASSERT(report.size_after < report.size_before * 3 / 4); // one after the other
/// }
/// GGML_ASSERT(report.nodes_moved > 0 || !lastuse_enabled());
/// ```
///
/// When: after the graph is complete, its backward pass included, and after the tensors that do not belong into the
/// compute buffer (weights, caches, gradients that are to stay) have their memory; before ggml_gallocr_reserve,
/// ggml_gallocr_alloc_graph, ggml_backend_sched_reserve, ggml_backend_sched_alloc_graph or the first run. Not afterwards:
/// backends may remember a graph that they have seen by an identifier that does not change with the order. Equal graphs get
/// equal orders; one with other sizes may get another order, and is then planned anew.
///
/// A program that looks nodes up by their places in the graph (ggml_graph_node) finds others there, except for the last;
/// the node_buffer_ids of ggml_gallocr_reserve_n are by place too.
/// Backends that run neighbours as one may find fewer of them, so only what must move is moved.
///
/// buft is the buffer type that the compute buffer will be of; NULL takes sizes as ggml_nbytes tells them, in multiples of
/// 32. On several backends the order is chosen as if all nodes were in one buffer, and neighbours that a scheduler would
/// run on one backend may be parted: measure there.
///
/// effort is how long to search, counted in nodes looked at; 0 means 3000000, which takes about two tenths of a second on a
/// graph of some thousand nodes, and much less where little can be done. The same graph and effort give the same order.
/// report may be NULL; otherwise it is filled, with zeros where nothing is known. Aborts when graph is NULL, or report has a struct_size that is too small.
///
/// # Safety
/// `graph` and its tensors are alive, and no other thread uses them; `buft` is NULL or alive; `report` is NULL or has
/// struct_size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_graph_reorder(
    graph: *mut ggml_cgraph,
    buft: *mut ggml_backend_buffer_type,
    effort: u64,
    report: *mut lastuse_reorder_report,
) -> bool {
    const NAME: &str = "lastuse_graph_reorder";
    guard(|| {
        let graph = required(graph, NAME, "graph");
        // SAFETY: the caller's promise; the report is a struct of C that begins with its size.
        let report = unsafe { checked_report(NAME, report) };
        // SAFETY: the caller's promise.
        let ggml = unsafe { ggml_of_graph(buft, graph) }.inspect_err(|why| refuse(NAME, why));
        let enabled = ggml.ok().filter(|ggml| ggml.original_in_use().is_none());
        let filled = match enabled.map(|ggml| &ggml.server) {
            None | Some(Server::Original(_)) => None,
            Some(Server::Lastuse(runtime)) => {
                let buffer_type = NonNull::new(buft).map(|buft| {
                    // SAFETY: a live buffer type.
                    unsafe { BufferType::new(runtime, buft) }
                });
                // SAFETY: the caller's promise.
                unsafe { reorder(runtime, NAME, graph, buffer_type, effort) }
            }
        };
        let filled = filled.unwrap_or_default();
        if let Some((report, struct_size)) = report {
            // SAFETY: the caller's promise; there is room for all fields, as was checked.
            unsafe { report.write(lastuse_reorder_report { struct_size, ..filled }) };
        }
        filled.nodes_moved > 0
    })
}

/// # Safety
/// `graph` and its tensors are alive, and no other thread uses them.
unsafe fn reorder(
    runtime: &'static Runtime,
    function: &str,
    graph: NonNull<ggml_cgraph>,
    buffer_type: Option<BufferType>,
    effort: u64,
) -> Option<lastuse_reorder_report> {
    let effort = if effort == 0 { Effort::default() } else { Effort(effort) };
    // SAFETY: a live graph.
    let live = unsafe { GraphRef::new(graph) };
    let found = reorder_nodes(runtime, live, buffer_type, effort);
    let Reordered { nodes, found } =
        found.inspect_err(|error| runtime.log_error(&format!("{function}: {error}\n"))).ok()?;
    if found.moved > 0 {
        // SAFETY: a live graph, which nobody else uses; `live` is not used any more.
        unsafe { GraphRef::set_nodes(graph, &nodes) };
    }
    let sum = |measures: &[Measure], field: fn(&Measure) -> Bytes| {
        usize::try_from(measures.iter().map(field).fold(0, Bytes::saturating_add)).unwrap_or(usize::MAX)
    };
    Some(lastuse_reorder_report {
        struct_size: 0,
        lower_bound_before: sum(&found.before, |measure| measure.lower_bound),
        lower_bound_after: sum(&found.after, |measure| measure.lower_bound),
        size_before: sum(&found.before, |measure| measure.size),
        size_after: sum(&found.after, |measure| measure.size),
        nodes_moved: c_int::try_from(found.moved).unwrap_or(c_int::MAX),
    })
}
