//! `lastuse_guard_check_graph` and `lastuse_guard_check_tensor`: whether tensors are in memory that was freed.

use std::ptr::null_mut;

use crate::ggml::{
    GraphRef, TensorRef, all_ggmls, check_place, check_places, ggml_backend_buffer, ggml_cgraph, ggml_tensor,
    places_are_recorded,
};

use super::abort::{abort_on_panic, abort_on_violation, required};

/// Checks that all tensors of a graph are in memory that was not freed, where its latest allocation has put them:
/// before a graph is computed that a program keeps. Otherwise ends in ggml's abort, with tensor and buffer. Checks
/// graphs allocated by lastuse since an allocator was created with the word "memory" (lastuse_set: verify); others pass.
/// Buffers of the program count if it calls lastuse_buffer_note and lastuse_buffer_note_free.
///
/// # Safety
/// `graph` and its tensors are live, and no other thread changes them; their buffers may be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_guard_check_graph(graph: *mut ggml_cgraph) {
    abort_on_panic(|| {
        let graph = required(graph, "lastuse_guard_check_graph", "graph");
        if places_are_recorded() && all_layouts_are_known() {
            // SAFETY: the graph and its tensors are live and not changed; their buffers are not read.
            let checked = check_places(unsafe { GraphRef::new(graph) });
            checked.unwrap_or_else(|violation| abort_on_violation(&violation));
        }
    });
}

/// Checks that a tensor is in memory that was not freed, as lastuse_guard_check_graph does: before a program reads or
/// writes it. A tensor that the program has put elsewhere passes. Returns the buffer that the tensor is in; NULL if it
/// is in none, or lastuse does not know the layout of a ggml of this process.
///
/// # Safety
/// `t` and the tensor that it is a view of are live, and no other thread changes them; their buffers may be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_guard_check_tensor(t: *const ggml_tensor) -> *mut ggml_backend_buffer {
    abort_on_panic(|| {
        let tensor = required(t.cast_mut(), "lastuse_guard_check_tensor", "t");
        if !all_layouts_are_known() {
            return null_mut();
        }
        // SAFETY: the tensor and its root are live and not changed; their buffers are not read.
        let tensor = unsafe { TensorRef::from_non_null(tensor) };
        check_place(tensor).unwrap_or_else(|violation| abort_on_violation(&violation));
        tensor.view_source().unwrap_or(tensor).buffer()
    })
}

/// Graphs and tensors can be read only if every ggml that they may be of has a known layout.
fn all_layouts_are_known() -> bool {
    all_ggmls().iter().all(|ggml| ggml.runtime().is_some())
}
