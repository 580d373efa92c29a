//! `lastuse_graph_dump_begin`, `lastuse_graph_dump`: writing the values of tensors to files.

use std::ptr::null_mut;

use crate::ggml::{begin_dump, dump_graph, ggml_cgraph};

use super::abort::{abort_on_panic, required};
use super::enabled::is_enabled;
use super::ggml_of_arguments::{ggml_of_graph, runtime_or_fail};
use super::last_error::set_last_error;

/// Prepares a graph for lastuse_graph_dump, before it is computed: flags the tensors that will be dumped as outputs, so
/// that no backend leaves out their results, as it may when it fuses a node with the next one. Without this call, files
/// of fused tensors have what was in their memory before. lastuse_graph_dump removes the flags. Returns false if no
/// names are set or lastuse is not enabled.
///
/// # Safety
/// `graph` and its tensors are live, and no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_graph_dump_begin(graph: *mut ggml_cgraph) -> bool {
    const NAME: &str = "lastuse_graph_dump_begin";
    abort_on_panic(|| {
        let graph = required(graph, NAME, "graph");
        // SAFETY: live, and used by this thread only, as the caller guarantees.
        let begun = || unsafe { begin_dump(graph) };
        is_enabled(NAME) && begun().inspect_err(|why| set_last_error(NAME, why)).is_ok()
    })
}

/// Writes the values of the tensors of a graph that has been computed, as arrays for numpy.load: of the nodes and
/// inputs whose names lastuse_set("dump", ...) selects. Each call writes to the next free folder, "run-00001" and so on, with
/// an "index.jsonl" (docs/inspecting.md). Asynchronous backends must be synchronized before. n_written may be NULL;
/// otherwise it gets the number of arrays. Returns false if a tensor could not be written (the others were), if no
/// names are set, and if lastuse is not enabled or does not know the layout of this ggml.
///
/// # Safety
/// `graph`, its tensors and their buffers are live, and neither another thread nor a backend uses them; `n_written` is
/// NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_graph_dump(graph: *mut ggml_cgraph, n_written: *mut usize) -> bool {
    const NAME: &str = "lastuse_graph_dump";
    abort_on_panic(|| {
        let graph = required(graph, NAME, "graph");
        if !is_enabled(NAME) {
            return false;
        }
        // SAFETY: a live graph of this thread, as the caller guarantees.
        let ggml = unsafe { ggml_of_graph(null_mut(), graph) };
        let Some(runtime) = runtime_or_fail(NAME, ggml) else { return false };
        let Ok(ggml) = ggml else { return false };
        // SAFETY: live, and used by this thread only, as the caller guarantees.
        let dumped = unsafe { dump_graph(ggml, runtime, graph) };
        let dumped =
            dumped.map_err(|why| why.to_string()).and_then(|dumped| dumped.failure.map_or(Ok(dumped.written), Err));
        if let (Ok(written), false) = (&dumped, n_written.is_null()) {
            // SAFETY: writable, as the caller guarantees.
            unsafe { n_written.write(*written) };
        }
        dumped.inspect_err(|why| set_last_error(NAME, why)).is_ok()
    })
}
