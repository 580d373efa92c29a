//! `lastuse_tensor_retain`, `lastuse_tensor_retain_until`, `lastuse_tensor_release` and `lastuse_set_retain`: tensors that
//! stay readable after their last use.

use std::ffi::{CStr, c_char};
use std::ptr::NonNull;

use crate::ggml::{TensorRef, ggml_gallocr, ggml_tensor, set_retain};
use crate::graph::NamePattern;

use super::abort::{abort_on_panic, required};
use super::enabled::is_enabled;
use super::graph_allocator::lastuse_allocator;
use super::last_error::fail;

/// Keeps the value of t readable to the end of the run, in every graph with t that galloc plans from now on: its memory
/// is neither reused nor written in place by a node that is computed later. Nothing in the graph changes.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
/// struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
/// ggml_set_input(input);
/// struct ggml_tensor * hidden = ggml_scale(ctx, input, 2.0f);
/// struct ggml_tensor * result = ggml_sqr(ctx, hidden); // would be computed in place of hidden
/// struct ggml_cgraph * graph  = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, result);
///
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
/// bool is_retained = lastuse_tensor_retain(galloc, hidden); // false if lastuse is not enabled
/// GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graph));
/// const float one = 1.0f;
/// for (size_t i = 0; i < 64; i++) { ggml_backend_tensor_set(input, &one, i*sizeof(one), sizeof(one)); }
/// GGML_ASSERT(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS);
/// float value;
/// ggml_backend_tensor_get(hidden, &value, 0, sizeof(value));
/// GGML_ASSERT(!is_retained || value == 2.0f);
/// ggml_gallocr_free(galloc);
/// ```
///
/// t is a leaf or node of the graphs, in any of them, and may be a view: then the memory of its root lasts. A retained
/// tensor holds what the graph wrote there last: an operation that is a view of it, such as ggml_add_inplace or a
/// ggml_cpy into it, still writes. Has no effect on what has its own memory, on nodes that backends skip since they are
/// not flagged to be computed, and in graphs without t. Such graphs may need more memory than with ggml's own allocator.
///
/// Takes effect at the next call that reserves or allocates a graph; with several buffers, the graph must be reserved
/// anew. Lasts until lastuse_tensor_release or until galloc is freed, and replaces an earlier call for t. t itself is not
/// kept: a tensor at its address with the same operation, type and extents, such as that of the same graph built again in
/// the same memory, counts as t, and any other does not. For allocators of a scheduler, which are out of reach, use
/// lastuse_set_retain.
///
/// Returns false, without effect, if lastuse has not created galloc, or if only parts of t are computed since
/// lastuse_graph_split; lastuse_last_error has the reason. Aborts if an argument is NULL.
///
/// # Safety
/// `galloc` is a live allocator that no other thread uses, and `t` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_tensor_retain(galloc: *mut ggml_gallocr, t: *mut ggml_tensor) -> bool {
    const NAME: &str = "lastuse_tensor_retain";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let allocator = unsafe { lastuse_allocator(NAME, galloc) };
        let t = required(t, NAME, "t");
        // SAFETY: a live tensor, as the caller guarantees.
        let tensor = unsafe { TensorRef::from_non_null(t) };
        let Some(allocator) = allocator else { return false };
        allocator.retain(tensor).inspect_err(|why| fail(NAME, why)).is_ok()
    })
}

/// Keeps the value of t readable until node has run, as lastuse_tensor_retain does to the end of the run: node does not
/// write over it, and later nodes may.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
/// struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
/// ggml_set_input(input);
/// struct ggml_tensor * hidden = ggml_scale(ctx, input, 2.0f);
/// struct ggml_tensor * square = ggml_sqr(ctx, hidden);
/// struct ggml_cgraph * graph  = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, ggml_sqr(ctx, square));
///
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
/// bool is_retained = lastuse_tensor_retain_until(galloc, hidden, square);
/// GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graph));
/// GGML_ASSERT(!is_retained || square->data != hidden->data); // both can be read when square has run
/// GGML_ASSERT(lastuse_tensor_release(galloc, hidden) == is_retained);
/// ggml_gallocr_free(galloc);
/// ```
///
/// For programs that look at values while a graph runs: from the callback of a scheduler, or between two parts of the
/// graph. In a graph in which node is not among the nodes, t lasts to the end. If node runs before t, that t can be read
/// once it is computed, and is not retained.
///
/// Returns false, without effect, if lastuse has not created galloc, if no operation computes node, or if only parts of t
/// are computed since lastuse_graph_split; the reason is in lastuse_last_error. Aborts if an argument is NULL.
///
/// # Safety
/// `galloc` is a live allocator that no other thread uses, and `t` and `node` are live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_tensor_retain_until(
    galloc: *mut ggml_gallocr,
    t: *mut ggml_tensor,
    node: *mut ggml_tensor,
) -> bool {
    const NAME: &str = "lastuse_tensor_retain_until";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let allocator = unsafe { lastuse_allocator(NAME, galloc) };
        let [t, node] = [required(t, NAME, "t"), required(node, NAME, "node")].map(|it: NonNull<ggml_tensor>| {
            // SAFETY: a live tensor, as the caller guarantees.
            unsafe { TensorRef::from_non_null(it) }
        });
        let Some(allocator) = allocator else { return false };
        let retained = allocator.retain_until(t, node);
        retained.inspect_err(|why| fail(NAME, why)).is_ok()
    })
}

/// Ends lastuse_tensor_retain and lastuse_tensor_retain_until for t, in the graphs that galloc plans from now on.
///
/// ```c
/// struct ggml_tensor * t = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
/// bool is_retained = lastuse_tensor_retain(galloc, t);
/// GGML_ASSERT(lastuse_tensor_release(galloc, t) == is_retained);
/// GGML_ASSERT(!lastuse_tensor_release(galloc, t)); // it is not retained any more
/// ggml_gallocr_free(galloc);
/// ```
///
/// Returns false, without effect, if t is not retained by these calls, or if lastuse has not created galloc; the reason is
/// in lastuse_last_error. What lastuse_set_retain names stays retained. Aborts if an argument is NULL.
///
/// # Safety
/// `galloc` is a live allocator that no other thread uses, and `t` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_tensor_release(galloc: *mut ggml_gallocr, t: *mut ggml_tensor) -> bool {
    const NAME: &str = "lastuse_tensor_release";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let allocator = unsafe { lastuse_allocator(NAME, galloc) };
        let t = required(t, NAME, "t");
        // SAFETY: a live tensor, as the caller guarantees.
        let tensor = unsafe { TensorRef::from_non_null(t) };
        let Some(allocator) = allocator else { return false };
        allocator.release(tensor).inspect_err(|why| fail(NAME, why)).is_ok()
    })
}

/// Keeps all tensors with matching names readable to the end of the run, as lastuse_tensor_retain does, in all graphs
/// that lastuse plans from now on: by existing and by later allocators, those of schedulers included, and by
/// lastuse_graph_measure and the like.
///
/// names is a list of patterns separated by commas, such as "l_out-*,kq*": * stands for any characters or none, ? for
/// one, and other characters for themselves, in the same case. White space around a pattern does not count. "*" keeps
/// every tensor, to look at everything that was computed; "" keeps none, the default. The environment variable
/// LASTUSE_RETAIN sets the names at the start.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
/// struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
/// ggml_set_input(input);
/// struct ggml_tensor * hidden = ggml_set_name(ggml_scale(ctx, input, 2.0f), "hidden-0");
/// struct ggml_cgraph * graph  = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, ggml_sqr(ctx, hidden));
///
/// bool is_retained = lastuse_set_retain("hidden-*"); // false if lastuse is not enabled
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
/// GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graph));
/// GGML_ASSERT(!is_retained || hidden->data != ggml_graph_node(graph, -1)->data);
/// GGML_ASSERT(!lastuse_set_retain("hidden-*,,")); // a pattern is empty
/// lastuse_set_retain("");
/// ggml_gallocr_free(galloc);
/// ```
///
/// Names are those of ggml (ggml_set_name) when a graph is planned. ggml names views and copies after their source,
/// "hidden-0 (view)", and tensors without a name by their place in the graph, "node_7"; a scheduler names its copies of a
/// tensor "CPU#hidden-0#0". Tensors of lastuse_tensor_retain_until are retained as that call says.
///
/// Takes effect when a graph is next reserved or allocated; with several buffers, it must be reserved anew, which
/// schedulers do by themselves. lastuse_graph_reorder and lastuse_graph_remove_copies respect the names too.
///
/// Returns false and changes nothing if one of several patterns is empty or names is not UTF-8, and, without effect, if
/// lastuse is not enabled; the reason is in lastuse_last_error. Aborts if names is NULL and lastuse is enabled. Any
/// thread may call it.
///
/// # Safety
/// `names` is a string that ends in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_set_retain(names: *const c_char) -> bool {
    const NAME: &str = "lastuse_set_retain";
    abort_on_panic(|| {
        if !is_enabled(NAME) {
            return false;
        }
        // SAFETY: NULL or a string, as the caller guarantees.
        unsafe { parse_names(NAME, names) }.map(set_retain).is_some()
    })
}

/// Parses a list of patterns of names; `None`, with the last error set and logged, if it is none. Aborts if `names` is
/// NULL.
///
/// # Safety
/// `names` is NULL, or a string that ends in NUL.
pub(super) unsafe fn parse_names(function: &str, names: *const c_char) -> Option<NamePattern> {
    let names = required(names.cast_mut(), function, "names");
    // SAFETY: a string, as the caller guarantees.
    let text = unsafe { CStr::from_ptr(names.as_ptr()) };
    let text = text.to_str().inspect_err(|error| fail(function, &format_args!("names is not UTF-8: {error}"))).ok()?;
    NamePattern::parse(text).inspect_err(|invalid| fail(function, invalid)).ok()
}
