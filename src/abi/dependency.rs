//! `ggml_dependency`: order as a part of the graph.

use std::ptr::NonNull;

use crate::ggml::{TensorRef, depend, ggml_context, ggml_tensor};

use super::context::expect_not_freed;
use super::refusal::{ggml_for, refuse};
use super::whose::ggml_of_tensors;
use super::{guard, required};

/// A tensor that is a (the same type, shape, strides and memory), but only after b has run: whoever reads it reads what b
/// has left in that memory. It makes order a part of the graph, where otherwise only the order of the calls of
/// ggml_build_forward_expand says it: here that the cache is read after the new rows were copied into it.
///
/// ```c
/// struct ggml_tensor * rows  = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 8, 2);
/// struct ggml_tensor * cache = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 8, 16);
/// struct ggml_tensor * slots = ggml_view_2d(ctx, cache, 8, 2, cache->nb[1], 4*cache->nb[1]);
/// struct ggml_tensor * copy  = ggml_cpy(ctx, rows, slots);
/// struct ggml_tensor * keys  = ggml_dependency(ctx, cache, copy);
/// struct ggml_tensor * sum   = ggml_sum(ctx, keys);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, sum); // the copy comes along, and comes first
/// GGML_ASSERT(ggml_graph_n_nodes(graph) == 4);
/// ```
///
/// It works in every walker of graphs: with any number of threads, in ggml_backend_sched (b is not copied for it), with
/// expand in any order. Gradients pass through to a. Nothing is computed for it. It belongs to ctx; a and b may belong
/// to other contexts.
///
/// NULL, with the reason in lastuse_last_error and in ggml's log, when a and b are the same tensor, when the context is
/// full, and when lastuse does not know the layout of this ggml. Aborts when an argument is NULL, and, in debug builds of
/// lastuse, when it belongs to a context that lastuse_context_free has freed.
///
/// # Safety
/// All three are alive, and so are a and b for as long as the result is used; no other thread uses ctx.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_dependency(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    const NAME: &str = "ggml_dependency";
    guard(|| {
        expect_not_freed(NAME, &[ctx.addr(), a.addr(), b.addr()]);
        let [a, b] = [required(a, NAME, "a"), required(b, NAME, "b")].map(|tensor: NonNull<ggml_tensor>| {
            // SAFETY: the caller's promise.
            unsafe { TensorRef::from_non_null(tensor) }
        });
        let context = required(ctx, NAME, "ctx");
        let Some(runtime) = ggml_for(NAME, ggml_of_tensors(&[a, b])) else { return std::ptr::null_mut() };
        // SAFETY: the caller's promise.
        let found = unsafe { depend(runtime, context.as_ptr(), a, b) };
        found.map(TensorRef::as_ptr).unwrap_or_else(|why| {
            refuse(NAME, &why);
            std::ptr::null_mut()
        })
    })
}
