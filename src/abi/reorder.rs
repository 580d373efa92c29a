//! `lastuse_graph_reorder`: another order for the nodes of a graph.

use std::ffi::c_int;
use std::ptr::NonNull;

use crate::ggml::{BufferType, GraphRef, Reordered, reorder_nodes};
use crate::ggml::{ggml_backend_buffer_type, ggml_cgraph};
use crate::graph::order::{Measure, ReorderEffort, Reordering};
use crate::placement::Bytes;

use super::abort::{abort_on_panic, required};
use super::ggml_of_arguments::ggml_of_graph;
use super::last_error::{fail, set_last_error};
use super::struct_size::{callers_struct, sized_struct};

/// Results of lastuse_graph_reorder. The caller sets struct_size and zeroes the rest.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_reorder_report {
    /// sizeof(struct lastuse_reorder_report). Later versions may add fields at the end.
    pub struct_size: usize,
    /// The lower bound of the given order, in bytes: the live bytes at its peak. No plan for this order is smaller.
    pub lower_bound_before: usize,
    /// The lower bound of the new order, in bytes.
    pub lower_bound_after: usize,
    /// Bytes of the plan that ggml_gallocr_reserve makes for the given order.
    pub size_before: usize,
    /// Bytes of the plan that ggml_gallocr_reserve makes for the new order.
    pub size_after: usize,
    /// How many nodes were moved; 0 if the order is unchanged.
    pub nodes_moved: c_int,
}

sized_struct!(lastuse_reorder_report);

/// Reorders the nodes of a graph so that fewer bytes are live at its peak, and a smaller compute buffer is enough.
/// Returns true if the order was changed.
///
/// The graph computes the same to the last bit on backends that run node by node: nodes that read or write the same
/// memory keep their order, through views and where tensors that have memory overlap; no node is moved past one that
/// runs a function of the program; and the last node stays the last. No plan becomes larger.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
/// struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
/// ggml_set_input(input);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// struct ggml_tensor * wide[2];
/// for (int i = 0; i < 2; i++) {
///     wide[i] = ggml_pad(ctx, ggml_scale(ctx, input, i + 1.0f), 65536, 0, 0, 0);
///     ggml_build_forward_expand(graph, wide[i]); // in this order both are live at the same time
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
/// When: after the graph is complete, its backward pass included, and after tensors that do not belong in the compute
/// buffer (weights, caches, gradients that are kept) have memory; before ggml_gallocr_reserve,
/// ggml_gallocr_alloc_graph, ggml_backend_sched_reserve, ggml_backend_sched_alloc_graph and the first run. Not later: a
/// backend may remember a graph by an identifier that does not change with the order. Equal graphs get equal orders; a
/// graph with other sizes may get another order, and is then planned anew.
///
/// The positions of nodes change, except that of the last: for ggml_graph_node, and for the node_buffer_ids of
/// ggml_gallocr_reserve_n. A backend that fuses neighbours may find fewer of them, so no node is moved without need.
///
/// buft is the buffer type of the future compute buffer; NULL takes sizes from ggml_nbytes, rounded up to multiples of
/// 32. With several backends the order is chosen as if all nodes were in one buffer, and nodes that a scheduler would
/// run together on one backend may be separated: measure there.
///
/// effort limits the search, in nodes visited; 0 means 3000000, about two tenths of a second on a graph with some
/// thousand nodes, and much less where little can be improved. Equal graphs and efforts give equal orders.
///
/// report may be NULL. Otherwise it is filled in, with zeros if nothing was computed.
///
/// Returns false if no better order was found, if sizes overflow (which is logged), and if lastuse is not enabled; if
/// no ggml is found, the reason is in lastuse_last_error and in ggml's log. Aborts if graph is NULL, or
/// report->struct_size is not set.
///
/// # Safety
/// `graph` and its tensors are live, and no other thread uses them; `buft` is NULL or live; `report` is NULL, or points
/// to struct_size bytes that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_graph_reorder(
    graph: *mut ggml_cgraph,
    buft: *mut ggml_backend_buffer_type,
    effort: u64,
    report: *mut lastuse_reorder_report,
) -> bool {
    const NAME: &str = "lastuse_graph_reorder";
    abort_on_panic(|| {
        let graph = required(graph, NAME, "graph");
        // SAFETY: NULL or of its stated size, as the caller guarantees.
        let report = unsafe { callers_struct(NAME, "report", report) };
        // SAFETY: live, and used by this thread only, as the caller guarantees.
        let filled = unsafe { reorder(NAME, graph, buft, effort) }.unwrap_or_default();
        if let Some(report) = report {
            report.write(&filled);
        }
        filled.nodes_moved > 0
    })
}

/// Reorders the nodes; `None` if lastuse is not enabled or the graph cannot be planned.
///
/// # Safety
/// `graph` and its tensors are live, and no other thread uses them; `buft` is NULL or live.
unsafe fn reorder(
    function: &str,
    graph: NonNull<ggml_cgraph>,
    buft: *mut ggml_backend_buffer_type,
    effort: u64,
) -> Option<lastuse_reorder_report> {
    // SAFETY: NULL or live, as the caller guarantees.
    let ggml = unsafe { ggml_of_graph(buft, graph) }.inspect_err(|why| fail(function, why)).ok()?;
    let Some(runtime) = ggml.served() else {
        set_last_error(function, &"lastuse is not enabled, so that its plans would not follow the order");
        return None;
    };
    // SAFETY: a live buffer type of this ggml, as the caller guarantees.
    let buffer_type = NonNull::new(buft).map(|buft| unsafe { BufferType::new(runtime, buft) });
    let effort = if effort == 0 { ReorderEffort::default() } else { ReorderEffort(effort) };
    // SAFETY: a live graph of this thread, as the caller guarantees.
    let live = unsafe { GraphRef::new(graph) };
    let reordered = reorder_nodes(runtime, live, buffer_type, effort);
    let reordered = reordered.inspect_err(|error| fail(function, error));
    let Reordered { nodes, found } = reordered.ok()?;
    if found.moved > 0 {
        // SAFETY: a live graph that no other thread uses; `live` is not used any more.
        unsafe { GraphRef::set_nodes(graph, &nodes) };
    }
    Some(lastuse_reorder_report::from(&found))
}

impl From<&Reordering> for lastuse_reorder_report {
    fn from(found: &Reordering) -> Self {
        let sum = |measures: &[Measure], field: fn(&Measure) -> Bytes| {
            usize::try_from(measures.iter().map(field).fold(0, Bytes::saturating_add)).unwrap_or(usize::MAX)
        };
        Self {
            struct_size: 0,
            lower_bound_before: sum(&found.before, |measure| measure.lower_bound),
            lower_bound_after: sum(&found.after, |measure| measure.lower_bound),
            size_before: sum(&found.before, |measure| measure.size),
            size_after: sum(&found.after, |measure| measure.size),
            nodes_moved: c_int::try_from(found.moved).unwrap_or(c_int::MAX),
        }
    }
}
