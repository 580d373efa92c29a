//! `lastuse_graph_remove_copies`: results are computed where copies would put them.

use std::ffi::c_int;
use std::ptr::NonNull;

use crate::ggml::{BufferType, GraphRef, ggml_backend_buffer_type, ggml_cgraph, remove_copies};
use crate::graph::copies::{Found, Reason};

use super::refusal::ggml_for;
use super::whose::ggml_of_graph;
use super::{checked_report, guard, required};

/// What lastuse_graph_remove_copies found. The caller sets struct_size and zeroes the rest.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_copies_report {
    /// sizeof(struct lastuse_copies_report): which fields there are. Later versions may add some at the end.
    pub struct_size: usize,
    /// Bytes that are not copied any more, each time that the graph runs.
    pub bytes_removed: usize,
    /// Copies that were removed.
    pub removed: c_int,
    /// Copies that stay: they convert to another type.
    pub left_type: c_int,
    /// No node computes what is copied into memory of its own: it is an input, a weight, written in place of something else,
    /// or flagged as input, output, parameter or loss; or the copy is flagged as input, parameter or loss.
    pub left_producer: c_int,
    /// Somebody else reads what is copied.
    pub left_readers: c_int,
    /// The copy takes a part of what was computed, or repeats some of it.
    pub left_part: c_int,
    /// The operation is not known to write the layout that the copy would have given.
    pub left_layout: c_int,
    /// Somebody uses the memory between the producer and the copy.
    pub left_order: c_int,
    /// What the producer reads lies where it would write.
    pub left_overlap: c_int,
    /// Nothing is known of the memory that an allocator will give (buft is NULL), or it has given some already.
    pub left_memory: c_int,
    /// The producer would have to run on another device.
    pub left_device: c_int,
    /// The producer has no slot left for one more source.
    pub left_slot: c_int,
    /// More bytes would be alive at the worst step.
    pub left_peak: c_int,
}

/// Lets operations write their results where ggml_cpy, ggml_cont, ggml_dup and ggml_concat would only copy them, and answers
/// how many of these copies are not made any more. The graph computes the same to the last bit, and no more bytes are
/// alive at its worst step than before.
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
/// A copy is removed when what it copies is computed for nobody else, all of it, by an operation that is known to write such
/// a layout, and when nobody touches that memory in between, in the order in which the graph lists its nodes. The producer then
/// becomes a view of the memory (or, for ggml_cont and ggml_dup, the copy becomes a view of the producer), the copy a reshape
/// that nothing is computed for; a ggml_concat becomes a tensor without operation, into whose memory others write. All
/// tensors keep their shapes and their values, and nodes their places. The strides and the memory of a producer, and of views
/// between it and the copy, are others; views of those that are in no list of the graph are stale.
///
/// When: after the graph is complete, its backward pass included, and after the tensors that do not belong into the compute
/// buffer (weights, caches) have their memory; before lastuse_graph_reorder, ggml_gallocr_reserve, ggml_gallocr_alloc_graph,
/// ggml_backend_sched_reserve, ggml_backend_sched_alloc_graph or the first run. What an allocator has given memory is left
/// alone. A second call finds nothing more, and does no harm. Whatever is given the graph afterwards, lastuse, ggml's own
/// allocator, or ggml_backend_sched, needs to know nothing of this.
///
/// buft is the buffer type that the compute buffer will be of. NULL when there will be several, or none of them is known:
/// then only copies into tensors that have memory are removed, and ggml_cont and ggml_dup that the producer can do without
/// changing its own layout; so it must be NULL for a scheduler with several backends. Layouts with gaps are only written by
/// ggml's CPU backend.
///
/// report may be NULL; otherwise it is filled: removed and the left_ fields sum up to the copies of the graph that have
/// elements. The graph is left as it is, with an answer of 0, when it lists a tensor twice, and when lastuse does not know the
/// layout of this ggml (lastuse_last_error then says so). Aborts when graph is NULL, or report has a struct_size that is too
/// small.
///
/// # Safety
/// `graph` and its tensors are alive, and no other thread uses them; `buft` is NULL or alive; `report` is NULL or has
/// struct_size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_graph_remove_copies(
    graph: *mut ggml_cgraph,
    buft: *mut ggml_backend_buffer_type,
    report: *mut lastuse_copies_report,
) -> c_int {
    const NAME: &str = "lastuse_graph_remove_copies";
    guard(|| {
        let graph = required(graph, NAME, "graph");
        // SAFETY: the caller's promise; the report is a struct of C that begins with its size.
        let report = unsafe { checked_report(NAME, report) };
        // SAFETY: the caller's promise.
        let ggml = unsafe { ggml_of_graph(buft, graph) };
        let found = ggml_for(NAME, ggml).map(|runtime| {
            // SAFETY: a live buffer type.
            let buffer_type = NonNull::new(buft).map(|buft| unsafe { BufferType::new(runtime, buft) });
            // SAFETY: a live graph.
            remove_copies(runtime, unsafe { GraphRef::new(graph) }, buffer_type)
        });
        let filled = lastuse_copies_report::from(&found.unwrap_or_default());
        if let Some((report, struct_size)) = report {
            // SAFETY: the caller's promise; there is room for all fields, as was checked.
            unsafe { report.write(lastuse_copies_report { struct_size, ..filled }) };
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
