//! `lastuse_graph_verify`: verifying the addresses that tensors got.

use std::ffi::{CStr, c_char};
use std::ptr::null_mut;

use crate::ggml::{GraphRef, Verify, ggml_cgraph, verify_graph};

use super::abort::{abort_on_panic, required};
use super::ggml_of_arguments::{ggml_of_graph, runtime_or_fail};
use super::last_error::fail;

/// Verifies the addresses of an allocated graph, whichever allocator assigned them: simulates the graph, and returns
/// true if no value is overwritten before its last use and no result before the end. Tensors outside of compute
/// buffers, such as weights, are taken to be correct. Takes some microseconds for each tensor. Returns false if an
/// address is wrong, if lastuse does not know the layout of this ggml, and if this ggml does not report which buffers
/// are compute buffers.
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
