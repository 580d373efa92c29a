//! `ggml_dependency`: order as a part of the graph.

use std::ptr::{NonNull, null_mut};

use crate::ggml::{TensorRef, depend, ggml_context, ggml_tensor};

use super::abort::{abort_on_panic, required};
use super::context::expect_not_freed;
use super::ggml_of_arguments::{ggml_of_tensors, runtime_or_fail};
use super::last_error::fail;

/// Returns a tensor that is a view of all of a and depends on b: what reads it runs after b, and reads what b has
/// written to that memory. So order becomes a part of the graph, also in ggml_backend_sched. The result has the type,
/// shape, strides and memory of a, and belongs to ctx; a and b may belong to other contexts, and live as long as it is
/// used. Nothing is computed for it, and gradients pass through to a. Returns NULL if a and b are the same tensor, if
/// ctx is full, and if lastuse does not know the layout of this ggml.
///
/// # Safety
/// `ctx`, `a` and `b` are live, `a` and `b` for as long as the result is used; no other thread uses them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_dependency(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    const NAME: &str = "ggml_dependency";
    abort_on_panic(|| {
        expect_not_freed(NAME, &[ctx.addr(), a.addr(), b.addr()]);
        let [a, b] = [required(a, NAME, "a"), required(b, NAME, "b")].map(|tensor: NonNull<ggml_tensor>| {
            // SAFETY: a live tensor of this thread, as the caller guarantees.
            unsafe { TensorRef::from_non_null(tensor) }
        });
        let context = required(ctx, NAME, "ctx");
        let Some(runtime) = runtime_or_fail(NAME, ggml_of_tensors(&[a, b])) else { return null_mut() };
        // SAFETY: live, and used by this thread only, as the caller guarantees.
        let made = unsafe { depend(runtime, context.as_ptr(), a, b) };
        made.inspect_err(|why| fail(NAME, why)).map_or(null_mut(), TensorRef::as_ptr)
    })
}
