//! `lastuse_tensor_set_output`: computing a result in given memory.

use std::ptr::{NonNull, null_mut};

use crate::ggml::{TensorRef, ggml_tensor, set_output};

use super::abort::{abort_on_panic, required};
use super::ggml_of_arguments::{ggml_of_tensors, runtime_or_fail};
use super::last_error::fail;

/// Redirects the result of t to the memory of dst, so that it need not be copied there. Returns t, which is a view of
/// dst from now on. ggml_set_output(t, dst), with two arguments, calls this function.
///
/// Returns NULL and changes nothing where that is impossible, such as when t is a view, an input, or not known to write
/// the layout of dst; ggml_cpy then has the same result. Nodes that touch this memory must be ordered by
/// ggml_dependency: otherwise ggml_gallocr_reserve, ggml_gallocr_alloc_graph and schedulers refuse the graph
/// (docs/copies.md). t must not need gradients. dst outlives t.
///
/// # Safety
/// `t` and `dst` are live, `dst` for as long as `t` is used; no other thread uses them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_tensor_set_output(t: *mut ggml_tensor, dst: *mut ggml_tensor) -> *mut ggml_tensor {
    const NAME: &str = "lastuse_tensor_set_output";
    abort_on_panic(|| {
        let [result, output] = [required(t, NAME, "t"), required(dst, NAME, "dst")].map(|it: NonNull<ggml_tensor>| {
            // SAFETY: a live tensor of this thread, as the caller guarantees.
            unsafe { TensorRef::from_non_null(it) }
        });
        let Some(runtime) = runtime_or_fail(NAME, ggml_of_tensors(&[result, output])) else { return null_mut() };
        set_output(runtime, result, output).map(|()| t).unwrap_or_else(|why| {
            let (result, output) = (result.name(), output.name());
            fail(NAME, &format_args!("{why} (t is \"{result}\", dst is \"{output}\")"));
            null_mut()
        })
    })
}
