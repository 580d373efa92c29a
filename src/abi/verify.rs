//! `lastuse_set_verify` and `lastuse_graph_verify`: verifying the addresses that tensors got.

use std::ffi::{CStr, c_char};
use std::ptr::null_mut;

use crate::ggml::{GraphRef, Verify, change_settings, ggml_cgraph, verify_graph};

use super::abort::{abort_on_panic, required};
use super::enabled::is_enabled;
use super::ggml_of_arguments::{ggml_of_graph, runtime_or_fail};
use super::last_error::fail;

/// Sets what is verified for allocators created from now on, those of schedulers included. Where an error is found,
/// ggml's log gets the tensors, operations, steps and bytes, and the process ends in ggml's abort.
///
/// words is a list of words separated by commas, in any case; each adds to the earlier ones:
/// - "off": nothing, the default.
/// - "plan": whenever ggml_gallocr_alloc_graph has allocated a graph, simulates it at the addresses of its tensors,
///   tracking which value each byte holds. A graph that was verified and has the same addresses again is not simulated
///   again.
/// - "memory": as "plan"; also informs guards (lastuse_guard_new) which memory is free while a graph runs, and records
///   where tensors are, so that memory that was freed is not used (lastuse_guard_check_graph).
/// - "weights": as "memory"; guards also check buffers that are marked as weights.
/// - "no-custom": functions of the program (ggml_map_custom1 and the like) may write anywhere.
///
/// The environment variable LASTUSE_VERIFY sets the words at the start.
///
/// ```c
/// GGML_ASSERT(lastuse_set_verify("plan"));
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend)); // its graphs are verified
/// GGML_ASSERT(!lastuse_enabled() || !lastuse_set_verify("everything")); // unknown word
/// GGML_ASSERT(!lastuse_enabled() || strstr(lastuse_last_error(), "everything") != NULL);
/// GGML_ASSERT(lastuse_set_verify("off")); // for later allocators
/// ggml_gallocr_free(galloc);
/// ```
///
/// Returns false and changes nothing if a word is unknown; the reason is in lastuse_last_error and in ggml's log.
/// Returns true, without effect, if lastuse is not enabled; lastuse_last_error has the reason. Aborts if words is NULL
/// and lastuse is enabled. Any thread may call it.
///
/// # Safety
/// `words` is a string that ends in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_set_verify(words: *const c_char) -> bool {
    const NAME: &str = "lastuse_set_verify";
    abort_on_panic(|| {
        if !is_enabled(NAME) {
            return true;
        }
        // SAFETY: NULL or a string, as the caller guarantees.
        let verify = unsafe { parse_verify(NAME, words) };
        verify.map(|verify| change_settings(|settings| settings.verify = verify)).is_some()
    })
}

/// Verifies the addresses of an allocated graph, whichever allocator assigned them: simulates the graph, and returns
/// true if no value is overwritten before its last use and no result before the end.
///
/// Checks all tensors in buffers with the usage GGML_BACKEND_BUFFER_USAGE_COMPUTE; others, such as weights, are taken
/// to be correct. Takes some microseconds for each tensor.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
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
/// sum->data = (char *) sum->data + 4; // the error
/// GGML_ASSERT(!lastuse_graph_verify(graph));
/// printf("%s\n", lastuse_last_error());
/// ggml_gallocr_free(galloc);
/// ```
///
/// Returns false if an address is wrong, if lastuse does not know the layout of this ggml, and if this ggml does not
/// report which buffers are compute buffers; the reason is in lastuse_last_error and in ggml's log. Works also if
/// lastuse is not enabled. Aborts if graph is NULL.
///
/// # Safety
/// `graph`, its tensors and their buffers are live, and no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_graph_verify(graph: *mut ggml_cgraph) -> bool {
    const NAME: &str = "lastuse_graph_verify";
    abort_on_panic(|| {
        let graph = required(graph, NAME, "graph");
        // SAFETY: a live graph of this thread, as the caller guarantees.
        let ggml = unsafe { ggml_of_graph(null_mut(), graph) };
        let Some(runtime) = runtime_or_fail(NAME, ggml) else { return false };
        // SAFETY: a live graph of this thread, as the caller guarantees.
        let graph = unsafe { GraphRef::new(graph) };
        verify_graph(runtime, graph).inspect_err(|violation| fail(NAME, violation)).is_ok()
    })
}

/// Parses a list of words; `None`, with the last error set and logged, if one is unknown. Aborts if `words` is NULL.
///
/// # Safety
/// `words` is NULL, or a string that ends in NUL.
pub(super) unsafe fn parse_verify(function: &str, words: *const c_char) -> Option<Verify> {
    let words = required(words.cast_mut(), function, "words");
    // SAFETY: a string, as the caller guarantees.
    let text = unsafe { CStr::from_ptr(words.as_ptr()) };
    text.to_string_lossy().parse().inspect_err(|unknown| fail(function, unknown)).ok()
}
