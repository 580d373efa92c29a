//! Passes that need no budget: `lastuse_graph_remove_copies` and `lastuse_graph_reorder`.

use std::ptr::null_mut;

use crate::ggml::{GraphRef, Reordered, remove_copies, reorder_nodes};
use crate::ggml::{ggml_backend_buffer_type, ggml_cgraph};
use crate::graph::copies::{Found, Reason};
use crate::graph::order::{Measure, ReorderEffort, Reordering};
use crate::placement::Bytes;

use super::arguments::{buffer_type, ggml_of_graph};
use super::c_types::sized_struct;
use super::call::{call, size};

/// Parameters of lastuse_graph_remove_copies.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lastuse_copies_params {
    /// sizeof(struct lastuse_copies_params).
    pub struct_size: usize,
    /// The buffer type of the future compute buffer; NULL, for fewer copies, if there will be several or it is unknown.
    pub buft: *mut ggml_backend_buffer_type,
}

sized_struct!(lastuse_copies_params);

/// Results of lastuse_graph_remove_copies. The producer of a copy is the node whose result is copied.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct lastuse_copies_report {
    /// sizeof(struct lastuse_copies_report).
    pub struct_size: usize,
    /// Bytes that each run of the graph no longer copies.
    pub bytes_removed: usize,
    /// Copies removed.
    pub removed: usize,
    /// Copies kept because they convert to another type.
    pub left_type: usize,
    /// Kept because no node computes the source in memory that can be changed: it is an input, a weight, computed in
    /// place, or flagged; or because the copy is flagged as input, parameter or loss.
    pub left_producer: usize,
    /// Kept because other nodes read the source of the copy.
    pub left_readers: usize,
    /// Kept because the copy takes a part of the result, or repeats some of it.
    pub left_part: usize,
    /// Kept because the operation is not known to write the layout that the copy has.
    pub left_layout: usize,
    /// Kept because another node uses the memory between the producer and the copy.
    pub left_order: usize,
    /// Kept because a source of the producer overlaps the memory that it would write.
    pub left_overlap: usize,
    /// Kept because the memory that an allocator will assign is unknown (params->buft is NULL), or is already assigned.
    pub left_memory: usize,
    /// Kept because the producer would have to run on another device.
    pub left_device: usize,
    /// Kept because the producer has no free slot for one more source.
    pub left_slot: usize,
    /// Kept because more bytes would be live at the peak.
    pub left_peak: usize,
}

sized_struct!(lastuse_copies_report);

/// Removes copies from a graph: operations write their results where ggml_cpy, ggml_cont, ggml_dup and ggml_concat
/// would copy them. Returns true if any was removed. Results are the same to the last bit. Call it when the graph is
/// complete and tensors outside of the compute buffer have memory, before lastuse_graph_reorder and before the graph is
/// reserved, allocated or run. params and report may be NULL. See docs/copies.md.
///
/// # Safety
/// `graph` and its tensors are live, and no other thread uses them; `params` and `report` are NULL, or point to
/// struct_size bytes that no other thread uses; params->buft is NULL or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_graph_remove_copies(
    graph: *mut ggml_cgraph,
    params: *const lastuse_copies_params,
    report: *mut lastuse_copies_report,
) -> bool {
    call("lastuse_graph_remove_copies", |call| {
        let graph = call.required("graph", graph);
        // SAFETY: NULL or of its stated size: see "# Safety".
        let params = unsafe { call.params_if_any(params) };
        // SAFETY: NULL or of its stated size: see "# Safety".
        let report = unsafe { call.report_if_any(report) };
        let buft = params.map_or(null_mut(), |params| params.buft);
        // SAFETY: NULL or live: see "# Safety".
        let runtime = call.runtime(unsafe { ggml_of_graph(buft, graph) })?;
        // SAFETY: NULL, or a live buffer type of this ggml: see "# Safety".
        let buffer_type = unsafe { buffer_type(runtime, buft) };
        // SAFETY: a live graph of this thread: see "# Safety".
        let found = remove_copies(runtime, unsafe { GraphRef::new(graph) }, buffer_type);
        if let Some(report) = report {
            report.write(&lastuse_copies_report::from(&found));
        }
        if found.removed.is_empty() { Err(call.refuse_silently(&"no copy can be removed")) } else { Ok(true) }
    })
}

impl From<&Found> for lastuse_copies_report {
    fn from(found: &Found) -> Self {
        let left = |reason: Reason| found.left_for(reason) as usize;
        Self {
            struct_size: 0,
            bytes_removed: size(found.bytes),
            removed: found.removed.len(),
            left_type: left(Reason::Type),
            left_producer: left(Reason::Producer),
            left_readers: left(Reason::Readers),
            left_part: left(Reason::Part),
            left_layout: left(Reason::Layout),
            left_order: left(Reason::Order),
            left_overlap: left(Reason::Overlap),
            left_memory: left(Reason::Memory),
            left_device: left(Reason::Device),
            left_slot: left(Reason::Slot),
            left_peak: left(Reason::Peak),
        }
    }
}

/// Parameters of lastuse_graph_reorder.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lastuse_reorder_params {
    /// sizeof(struct lastuse_reorder_params).
    pub struct_size: usize,
    /// The buffer type of the future compute buffer; NULL: sizes of ggml_nbytes, in multiples of 32.
    pub buft: *mut ggml_backend_buffer_type,
    /// The work limit of the search, in nodes visited; 0: 3000000, at most about two tenths of a second.
    pub effort: u64,
}

sized_struct!(lastuse_reorder_params);

/// Results of lastuse_graph_reorder.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
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
    pub nodes_moved: usize,
}

sized_struct!(lastuse_reorder_report);

/// Reorders the nodes of a graph so that fewer bytes are live at its peak. Returns true if the order was changed.
/// Results are the same to the last bit on backends that run node by node; the last node stays the last.
///
/// Call it when the graph is complete and tensors outside of the compute buffer have memory, before it is reserved,
/// allocated or run. params and report may be NULL. Returns false if no better order was found, which report also
/// describes, if sizes overflow, and if lastuse is not enabled. See docs/planning.md.
///
/// # Safety
/// `graph` and its tensors are live, and no other thread uses them; `params` and `report` are NULL, or point to
/// struct_size bytes that no other thread uses; params->buft is NULL or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_graph_reorder(
    graph: *mut ggml_cgraph,
    params: *const lastuse_reorder_params,
    report: *mut lastuse_reorder_report,
) -> bool {
    call("lastuse_graph_reorder", |call| {
        let graph = call.required("graph", graph);
        // SAFETY: NULL or of its stated size: see "# Safety".
        let params = unsafe { call.params_if_any(params) };
        // SAFETY: NULL or of its stated size: see "# Safety".
        let report = unsafe { call.report_if_any(report) };
        let (buft, effort) = params.map_or((null_mut(), 0), |params| (params.buft, params.effort));
        // SAFETY: NULL or live: see "# Safety".
        let runtime = call.served(unsafe { ggml_of_graph(buft, graph) })?;
        // SAFETY: NULL, or a live buffer type of this ggml: see "# Safety".
        let buffer_type = unsafe { buffer_type(runtime, buft) };
        let effort = if effort == 0 { ReorderEffort::default() } else { ReorderEffort(effort) };
        // SAFETY: a live graph of this thread: see "# Safety".
        let live = unsafe { GraphRef::new(graph) };
        let Reordered { nodes, found } = call.done(reorder_nodes(runtime, live, buffer_type, effort))?;
        if found.moved > 0 {
            // SAFETY: a live graph that no other thread uses; `live` is not used any more.
            unsafe { GraphRef::set_nodes(graph, &nodes) };
        }
        if let Some(report) = report {
            report.write(&lastuse_reorder_report::from(&found));
        }
        if found.moved > 0 { Ok(true) } else { Err(call.refuse_silently(&"no better order was found")) }
    })
}

impl From<&Reordering> for lastuse_reorder_report {
    fn from(found: &Reordering) -> Self {
        let sum = |measures: &[Measure], field: fn(&Measure) -> Bytes| {
            size(measures.iter().map(field).fold(0, Bytes::saturating_add))
        };
        Self {
            struct_size: 0,
            lower_bound_before: sum(&found.before, |measure| measure.lower_bound),
            lower_bound_after: sum(&found.after, |measure| measure.lower_bound),
            size_before: sum(&found.before, |measure| measure.size),
            size_after: sum(&found.after, |measure| measure.size),
            nodes_moved: found.moved,
        }
    }
}
