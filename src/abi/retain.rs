//! `lastuse_tensor_retain`, `lastuse_tensor_retain_until`, `lastuse_tensor_release`: tensors that stay readable after their last use.

use std::ptr::NonNull;

use crate::ggml::{TensorRef, ggml_gallocr, ggml_tensor};

use super::abort::{abort_on_panic, required};
use super::graph_allocator::lastuse_allocator;
use super::last_error::fail;

/// Keeps the value of t, a leaf, node or view, readable to the end of the run in every graph with t that galloc plans
/// from now on: its memory is neither reused nor written in place by a later node. The graph is not changed; its plan
/// may be larger than that of ggml's own allocator.
///
/// Lasts until lastuse_tensor_release or until galloc is freed, and replaces an earlier call for t. With several
/// buffers, the graph must be reserved anew (docs/retention.md). For allocators of schedulers, use lastuse_set.
/// Returns false if lastuse has not created galloc, or if only parts of t are computed since lastuse_graph_tile.
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
        allocator.retain(tensor, None).inspect_err(|why| fail(NAME, why)).is_ok()
    })
}

/// Keeps the value of t readable until node has run, as lastuse_tensor_retain does to the end of the run: node does not
/// write over it, and later nodes may. For programs that look at values while a graph runs. In a graph that does not
/// have node, t lasts to the end; where node runs before t, t is not retained. Returns false, without effect, also if
/// no operation computes node.
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
        let retained = allocator.retain(t, Some(node));
        retained.inspect_err(|why| fail(NAME, why)).is_ok()
    })
}

/// Ends lastuse_tensor_retain and lastuse_tensor_retain_until for t, in the graphs that galloc plans from now on. What
/// lastuse_set names stays retained. Returns false if t is not retained by these calls.
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
