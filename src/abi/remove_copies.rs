//! `lastuse_graph_remove_copies`: results are computed where copies would put them.

use std::ffi::c_int;
use std::ptr::NonNull;

use crate::ggml::{BufferType, GraphRef, ggml_backend_buffer_type, ggml_cgraph, remove_copies};
use crate::graph::copies::{Found, Reason};

use super::abort::{abort_on_panic, required};
use super::ggml_of_arguments::{ggml_of_graph, runtime_or_fail};
use super::struct_size::{callers_struct, sized_struct};

/// Results of lastuse_graph_remove_copies. The caller sets struct_size and zeroes the rest. The producer of a copy is
/// the node whose result is copied.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_copies_report {
    /// sizeof(struct lastuse_copies_report). Later versions may add fields at the end.
    pub struct_size: usize,
    /// Bytes that each run of the graph no longer copies.
    pub bytes_removed: usize,
    /// Copies removed.
    pub removed: c_int,
    /// Copies kept because they convert to another type.
    pub left_type: c_int,
    /// Kept because no node computes the source of the copy in memory of its own: it is an input, a weight, or computed
    /// in place, or flagged as input, output, parameter or loss; or because the copy is flagged as input, parameter or
    /// loss.
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
/// would copy them. Returns how many copies were removed. The graph computes the same to the last bit, and no more
/// bytes are live at its peak than before.
///
/// ```c
/// struct ggml_tensor * weights = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 4, 8);
/// struct ggml_tensor * input   = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 4, 2);
/// struct ggml_tensor * cache   = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 8, 16);
/// for (int i = 0; i < 32; i++) { ((float *) weights->data)[i] = 0.5f; }
/// for (int i = 0; i <  8; i++) { ((float *) input->data)[i]   = 1.0f; }
/// struct ggml_tensor * keys  = ggml_mul_mat(ctx, weights, input);
/// struct ggml_tensor * slots = ggml_view_2d(ctx, cache, 8, 2, cache->nb[1], 4*cache->nb[1]);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, ggml_cpy(ctx, keys, slots));
/// struct lastuse_copies_report report = { sizeof(report) };
/// GGML_ASSERT(lastuse_graph_remove_copies(graph, NULL, &report) == 1);
/// GGML_ASSERT(report.bytes_removed == ggml_nbytes(keys));
/// GGML_ASSERT(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS);
/// GGML_ASSERT(((float *) cache->data)[4*8] == 2.0f && keys->data == slots->data); // the product was written there
/// ```
///
/// A copy is removed if it copies all of a result that no other node reads, if the producer is known to write the
/// layout of the copy, and if no node uses that memory in between, in the order of the graph's nodes. The producer then
/// becomes a view of the memory (for ggml_cont and ggml_dup, the copy can become a view of the producer), the copy a
/// reshape, for which nothing is computed; a ggml_concat becomes a tensor without operation, whose parts are written by
/// others. All tensors keep their shapes and values, and nodes their positions. The strides and the memory of a
/// producer, and of views between it and the copy, change; views of these that are in no list of the graph are stale.
///
/// When: after the graph is complete, its backward pass included, and after tensors that do not belong in the compute
/// buffer (weights, caches) have memory; before lastuse_graph_reorder, ggml_gallocr_reserve, ggml_gallocr_alloc_graph,
/// ggml_backend_sched_reserve, ggml_backend_sched_alloc_graph and the first run. Tensors that an allocator has given
/// memory are left unchanged. A second call removes nothing more. The graph can be allocated by lastuse, ggml's own
/// allocator or ggml_backend_sched.
///
/// buft is the buffer type of the future compute buffer. NULL if there will be several or it is unknown, as for a
/// scheduler with several backends: then only copies into tensors that have memory are removed, and ggml_cont and
/// ggml_dup where the producer keeps its layout. Only ggml's CPU backend writes layouts with gaps.
///
/// report may be NULL. Otherwise it is filled in: removed and the left_ fields add up to the copies of the graph that
/// have elements.
///
/// Returns 0, with the graph unchanged, also if the graph lists a tensor twice and if lastuse does not know the layout
/// of this ggml; in the latter case the reason is in lastuse_last_error and in ggml's log. Works also if lastuse is not
/// enabled. Aborts if graph is NULL, or report->struct_size is not set.
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
