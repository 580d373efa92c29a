//! `lastuse_gallocr_explain`: why a graph needs the memory that it needs.

use std::ffi::{CString, c_char};
use std::ptr::null_mut;

use crate::ggml::GraphRef;
use crate::ggml::{ggml_cgraph, ggml_gallocr};
use crate::report::explain::{DEFAULT_TOP, explanation_text};

use super::abort::{abort_on_panic, required};
use super::graph_allocator::try_lastuse_allocator;
use super::last_error::fail;

/// Returns a text that explains why a graph needs the memory that it needs, as this allocator would plan it: for each
/// buffer the tensors that are live at the peak, and the changes that would lower it most (docs/explain.md). The caller
/// frees the string with lastuse_string_free.
///
/// The graph may be reserved or allocated already; nothing is allocated or changed. With several buffers, ids are those
/// of the latest ggml_gallocr_reserve_n of a graph with as many leafs and nodes, or else 0. Takes some tenths of a
/// second for thousands of nodes. Returns NULL if the graph cannot be planned, or lastuse has not created galloc.
///
/// # Safety
/// `galloc`, `graph` and its tensors are live, and no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_explain(galloc: *mut ggml_gallocr, graph: *mut ggml_cgraph) -> *mut c_char {
    const NAME: &str = "lastuse_gallocr_explain";
    abort_on_panic(|| {
        let graph = required(graph, NAME, "graph");
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let allocator = unsafe { try_lastuse_allocator(NAME, galloc) }.inspect_err(|why| fail(NAME, why));
        let Ok(allocator) = allocator else { return null_mut() };
        // SAFETY: a live graph of this thread, as the caller guarantees.
        let graph = unsafe { GraphRef::new(graph) };
        let explained = allocator.explain(graph).inspect_err(|why| fail(NAME, why));
        explained.map_or(null_mut(), |explanation| c_string(&explanation_text(&explanation, DEFAULT_TOP)))
    })
}

/// Frees a string that a function of lastuse returned to be freed by the caller; does nothing for NULL.
///
/// # Safety
/// `string` is NULL, or comes from lastuse_gallocr_explain or lastuse_accounting_text, is unchanged, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_string_free(string: *mut c_char) {
    if !string.is_null() {
        // SAFETY: made by `c_string`, unchanged, and freed once, as the caller guarantees.
        drop(unsafe { CString::from_raw(string) });
    }
}

pub(super) fn c_string(text: &str) -> *mut c_char {
    CString::new(text.replace('\0', " ")).unwrap_or_default().into_raw()
}
