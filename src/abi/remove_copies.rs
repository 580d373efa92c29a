//! `lastuse_graph_remove_copies`: results are computed where copies would put them.

use std::ffi::c_int;
use std::ptr::NonNull;

use crate::ggml::{BufferType, GraphRef, ggml_backend_buffer_type, ggml_cgraph, remove_copies};
use crate::graph::copies::{Found, Reason};

use super::abort::{abort_on_panic, required};
use super::ggml_of_arguments::{ggml_of_graph, runtime_or_fail};
use super::struct_size::{callers_struct, sized_struct};

/// Results of lastuse_graph_remove_copies. The producer of a copy is the node whose result is copied.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_copies_report {
    /// sizeof(struct lastuse_copies_report).
    pub struct_size: usize,
    /// Bytes that each run of the graph no longer copies.
    pub bytes_removed: usize,
    /// Copies removed.
    pub removed: c_int,
    /// Copies kept because they convert to another type.
    pub left_type: c_int,
    /// Kept because no node computes the source in memory that can be changed: it is an input, a weight, computed in
    /// place, or flagged; or because the copy is flagged as input, parameter or loss.
    pub left_producer: c_int,
    /// Kept because other nodes read the source of the copy.
    pub left_readers: c_int,
    /// Kept because the copy takes a part of the result, or repeats some of it.
    pub left_part: c_int,
    /// Kept because the operation is not known to write the layout that the copy has.
    pub left_layout: c_int,
    /// Kept because another node uses the memory between the producer and the copy.
    pub left_order: c_int,
    /// Kept because a source of the producer overlaps the memory that it would write.
    pub left_overlap: c_int,
    /// Kept because the memory that an allocator will assign is unknown (buft is NULL), or is already assigned.
    pub left_memory: c_int,
    /// Kept because the producer would have to run on another device.
    pub left_device: c_int,
    /// Kept because the producer has no free slot for one more source.
    pub left_slot: c_int,
    /// Kept because more bytes would be live at the peak.
    pub left_peak: c_int,
}

sized_struct!(lastuse_copies_report);

/// Removes copies from a graph: operations write their results where ggml_cpy, ggml_cont, ggml_dup and ggml_concat
/// would copy them. Returns how many were removed; 0 also on failure. Results are the same to the last bit. Called when
/// the graph is complete and tensors outside of the compute buffer have memory, before lastuse_graph_reorder and before
/// the graph is reserved, allocated or run. buft is the type of the future compute buffer; NULL, for fewer copies, if
/// there will be several or it is unknown. report may be NULL. See docs/copies.md.
///
/// # Safety
/// `graph` and its tensors are live, and no other thread uses them; `buft` is NULL or live; `report` is NULL, or points
/// to struct_size bytes that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_graph_remove_copies(
    graph: *mut ggml_cgraph,
    buft: *mut ggml_backend_buffer_type,
    report: *mut lastuse_copies_report,
) -> c_int {
    const NAME: &str = "lastuse_graph_remove_copies";
    abort_on_panic(|| {
        let graph = required(graph, NAME, "graph");
        // SAFETY: NULL or of its stated size, as the caller guarantees.
        let report = unsafe { callers_struct(NAME, "report", report) };
        // SAFETY: NULL or live, as the caller guarantees.
        let ggml = unsafe { ggml_of_graph(buft, graph) };
        let found = runtime_or_fail(NAME, ggml).map(|runtime| {
            // SAFETY: a live buffer type of this ggml, as the caller guarantees.
            let buffer_type = NonNull::new(buft).map(|buft| unsafe { BufferType::new(runtime, buft) });
            // SAFETY: a live graph of this thread, as the caller guarantees.
            remove_copies(runtime, unsafe { GraphRef::new(graph) }, buffer_type)
        });
        let filled = lastuse_copies_report::from(&found.unwrap_or_default());
        if let Some(report) = report {
            report.write(&filled);
        }
        filled.removed
    })
}

impl From<&Found> for lastuse_copies_report {
    fn from(found: &Found) -> Self {
        let left = |reason: Reason| c_int::try_from(found.left_for(reason)).unwrap_or(c_int::MAX);
        Self {
            struct_size: 0,
            bytes_removed: usize::try_from(found.bytes).unwrap_or(usize::MAX),
            removed: c_int::try_from(found.removed.len()).unwrap_or(c_int::MAX),
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
