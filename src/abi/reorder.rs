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

/// Results of lastuse_graph_reorder.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_reorder_report {
    /// sizeof(struct lastuse_reorder_report).
    pub struct_size: usize,
    /// The lower bound of the given order, in bytes: no plan for this order is smaller.
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

/// Reorders the nodes of a graph so that fewer bytes are live at its peak. Returns true if the order was changed.
/// Results are the same to the last bit on backends that run node by node; the last node stays the last.
///
/// Called when the graph is complete and tensors outside of the compute buffer have memory, before it is reserved,
/// allocated or run. buft is the type of the future compute buffer; NULL: sizes are those of ggml_nbytes. effort limits
/// the search, in nodes visited; 0 means 3000000, at most about two tenths of a second. report may be NULL. Returns
/// false if no better order was found, if sizes overflow, and if lastuse is not enabled. See docs/planning.md.
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
