//! `lastuse_gallocr_explain`: why a graph needs the memory that it needs.

use std::ffi::{CString, c_char};
use std::ptr::null_mut;

use crate::ggml::GraphRef;
use crate::ggml::{ggml_cgraph, ggml_gallocr};
use crate::report::explain::{DEFAULT_TOP, explanation_text};

use super::whose::own;
use super::{guard, refuse, required};

/// Explains in plain words why a graph needs the memory that it needs, as this allocator would plan it: for each buffer the
/// step at which the most bytes are alive, every tensor alive there (bytes, operation, who makes it, who reads it last), the
/// largest first, what is lost to fragmentation, what is reused in place, what ggml's own allocator would take, and which
/// single changes would lower the peak most, with the bytes that each saves alone. The tool `lastuse explain` prints the same
/// for captured graphs. The string is freed with lastuse_string_free.
///
/// The graph may be reserved or allocated already, or not; nothing is allocated or changed. Of several buffers each tensor is
/// expected where the latest ggml_gallocr_reserve_n of a graph with as many leafs and nodes wanted it, or else in the first.
/// Tries changes on copies of the graph, which takes some milliseconds, on graphs of thousands of nodes some tenths of a second.
///
/// NULL, with lastuse_last_error and a line in ggml's log, when the graph cannot be planned, and when lastuse is not enabled.
/// Aborts when galloc or graph is NULL.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will lie in the compute buffer
/// struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4096);
/// ggml_set_input(input);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, ggml_set_name(ggml_sum(ctx, ggml_sqr(ctx, input)), "total"));
///
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
/// char * text = lastuse_gallocr_explain(galloc, graph);
/// GGML_ASSERT((text != NULL) == lastuse_enabled());
/// puts(text != NULL ? text : lastuse_last_error());
/// GGML_ASSERT(text == NULL || strstr(text, "Alive at that step, largest first:") != NULL);
/// lastuse_string_free(text);
/// ggml_gallocr_free(galloc);
/// ```
///
/// # Safety
/// `galloc`, `graph` and its tensors are alive, and no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_explain(galloc: *mut ggml_gallocr, graph: *mut ggml_cgraph) -> *mut c_char {
    const NAME: &str = "lastuse_gallocr_explain";
    guard(|| {
        let graph = required(graph, NAME, "graph");
        // SAFETY: the caller's promise.
        let allocator = unsafe { own(NAME, galloc) }.inspect_err(|why| refuse(NAME, why));
        let Ok(allocator) = allocator else { return null_mut() };
        // SAFETY: the caller's promise.
        let graph = unsafe { GraphRef::new(graph) };
        let explained = allocator.explain(graph).inspect_err(|why| refuse(NAME, why));
        explained.map_or(null_mut(), |explanation| c_string(&explanation_text(&explanation, DEFAULT_TOP)))
    })
}

/// Frees a string that lastuse has made for the caller; NULL is fine.
///
/// ```c
/// lastuse_string_free(NULL);
/// ```
///
/// # Safety
/// `string` is NULL, or comes from a function of lastuse that says so, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_string_free(string: *mut c_char) {
    if !string.is_null() {
        // SAFETY: made by `c_string`, and given back once.
        drop(unsafe { CString::from_raw(string) });
    }
}

fn c_string(text: &str) -> *mut c_char {
    CString::new(text.replace('\0', " ")).unwrap_or_default().into_raw()
}
