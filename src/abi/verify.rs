//! `lastuse_set_verify`, `lastuse_graph_verify`: is the memory that graphs get the right memory?

use std::ffi::{CStr, c_char};
use std::ptr::null_mut;

use crate::ggml::{GraphRef, Verify, change_settings, ggml_cgraph, verify_graph};

use super::refusal::ggml_for;
use super::whose::{ggml_of_graph, is_enabled};
use super::{guard, refuse, required};

/// Says what is watched of the graphs of the allocators made from now on, those of schedulers included. Words separated
/// by commas, in any case, each adding to those before it: "off" (the default), "plan", "memory", "weights",
/// "no-custom". The environment variable LASTUSE_VERIFY says the same from the start. What is found to be wrong goes to
/// ggml's log, with the tensors, the operations, the steps and the bytes, and the process ends in ggml's abort.
///
/// ```c
/// GGML_ASSERT(lastuse_set_verify("plan"));
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend)); // is watched
/// GGML_ASSERT(!lastuse_enabled() || !lastuse_set_verify("everything")); // there is no such word
/// GGML_ASSERT(!lastuse_enabled() || strstr(lastuse_last_error(), "everything") != NULL);
/// GGML_ASSERT(lastuse_set_verify("off")); // for the allocators after it
/// ggml_gallocr_free(galloc);
/// ```
///
/// "plan": each time that ggml_gallocr_alloc_graph has given a graph its memory, the graph runs in thought, at the addresses
/// that its tensors really have, with an eye on whose value each byte holds; a graph that was found to be right, and lies
/// where it lay, is not looked at again. "memory": the same, and guards (lastuse_guard_new) learn from these allocators which
/// memory is free while a graph runs. "weights": the same, and guards look after buffers that are marked as weights too.
/// "no-custom": functions of the program (ggml_map_custom1 and the like) may write whatever they like.
///
/// False, with the reason in lastuse_last_error and in ggml's log, when a word is unknown: nothing is changed then. Without
/// effect when lastuse is not enabled. Aborts when words is NULL.
///
/// # Safety
/// `words` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_set_verify(words: *const c_char) -> bool {
    const NAME: &str = "lastuse_set_verify";
    guard(|| {
        if !is_enabled(NAME) {
            return true;
        }
        // SAFETY: the caller's promise.
        let mode = unsafe { mode(NAME, words) };
        mode.map(|mode| change_settings(|settings| settings.verify = mode)).is_some()
    })
}

/// Runs a graph that has its memory in thought, at the addresses that its tensors have, whichever allocator gave them: true
/// when no value is lost before its last reader, and no result before the end. GraphKey at all tensors in buffers that ggml
/// calls compute buffers; others, such as weights, are taken to be right. Costs some microseconds for each tensor.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will lie in the compute buffer
/// struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4096);
/// ggml_set_input(input);
/// struct ggml_tensor * square = ggml_sqr(ctx, input);
/// struct ggml_tensor * sum    = ggml_add(ctx, square, ggml_sum_rows(ctx, square));
/// struct ggml_cgraph * graph  = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, sum);
///
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
/// GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graph));
/// GGML_ASSERT(lastuse_graph_verify(graph));
/// sum->data = (char *) sum->data + 4; // as a faulty program would
/// GGML_ASSERT(!lastuse_graph_verify(graph));
/// printf("%s\n", lastuse_last_error());
/// ggml_gallocr_free(galloc);
/// ```
///
/// False, with what is wrong in lastuse_last_error and in ggml's log; also when lastuse does not know the layout of this
/// ggml, or this ggml does not tell which buffers are compute buffers. Works when lastuse is not enabled, too. Aborts when
/// graph is NULL.
///
/// # Safety
/// `graph`, its tensors and their buffers are alive, and no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_graph_verify(graph: *mut ggml_cgraph) -> bool {
    const NAME: &str = "lastuse_graph_verify";
    guard(|| {
        let graph = required(graph, NAME, "graph");
        // SAFETY: the caller's promise.
        let ggml = unsafe { ggml_of_graph(null_mut(), graph) };
        let Some(runtime) = ggml_for(NAME, ggml) else { return false };
        // SAFETY: the caller's promise.
        let graph = unsafe { GraphRef::new(graph) };
        verify_graph(runtime, graph).inspect_err(|violation| refuse(NAME, violation)).is_ok()
    })
}

/// What words say of what is watched; nothing, after saying why, when one is unknown.
///
/// # Safety
/// `words` is NULL or a string.
pub(super) unsafe fn mode(function: &str, words: *const c_char) -> Option<Verify> {
    let words = required(words.cast_mut(), function, "words");
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(words.as_ptr()) };
    text.to_string_lossy().parse().inspect_err(|unknown| refuse(function, unknown)).ok()
}
