//! `lastuse_tensor_set_output`: computing a result in given memory.

use std::ptr::{NonNull, null_mut};

use crate::ggml::{TensorRef, ggml_tensor, set_output};

use super::abort::{abort_on_panic, required};
use super::ggml_of_arguments::{ggml_of_tensors, runtime_or_fail};
use super::last_error::fail;

/// Redirects the result of t to the memory of dst, so that it need not be copied there. Returns t, which is a view of
/// dst from now on: what reads it reads dst after t has run. ggml_set_output(t, dst), with two arguments, calls this
/// function (a macro in C, an overload in C++); with one argument it is ggml's own function.
///
/// ```c
/// struct ggml_tensor * cache   = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 8, 16);
/// struct ggml_tensor * slots   = ggml_view_2d(ctx, cache, 8, 2, cache->nb[1], 4*cache->nb[1]);
/// struct ggml_tensor * weights = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 4, 8);
/// struct ggml_tensor * input   = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 4, 2);
/// for (int i = 0; i < 32; i++) { ((float *) weights->data)[i] = 0.5f; }
/// for (int i = 0; i <  8; i++) { ((float *) input->data)[i]   = 1.0f; }
/// ggml_set_no_alloc(ctx, true); // results get their memory from an allocator
/// struct ggml_tensor * rows = ggml_mul_mat(ctx, weights, input);
/// rows = ggml_set_output(rows, slots); // if it returns NULL, use ggml_cpy(ctx, rows, slots)
/// GGML_ASSERT(rows != NULL);
/// struct ggml_tensor * keys  = ggml_dependency(ctx, cache, rows);
/// struct ggml_tensor * twice = ggml_scale(ctx, keys, 2.0f);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, twice);
/// ggml_gallocr_t allocator = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
/// GGML_ASSERT(ggml_gallocr_alloc_graph(allocator, graph));
/// GGML_ASSERT(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS);
/// GGML_ASSERT(rows->data == slots->data && ((float *) cache->data)[4*8] == 2.0f);
/// ggml_gallocr_free(allocator);
/// ggml_set_no_alloc(ctx, false);
/// ```
///
/// All code that walks graphs can run the result; a scheduler runs t where dst is. When lastuse plans the graph, it
/// checks what depends on the whole graph:
/// - every other node that reads or writes that memory is ordered before or after t by sources, as with
///   ggml_dependency: of two nodes that touch redirected memory, one of them writing, one must depend on the other;
/// - no view of t is older than this call;
/// - where dst has gaps, nodes that read t itself are known to read such a layout, since they may have been made when t
///   had no gaps. Other operations can read ggml_cont of t, or ggml_view_4d of t, made after this call: ggml then
///   checks its strides.
///
/// If a check fails, ggml_gallocr_reserve, ggml_gallocr_alloc_graph and the functions of a scheduler that call them
/// return false; the rule and the two tensors are in ggml's log.
///
/// Returns NULL and changes nothing when this is impossible; ggml_cpy then has the same result. The reason is in
/// lastuse_last_error and in ggml's log:
/// - t and dst are the same, or differ in type or shape, or have no elements; or dst is quantized;
/// - t is not computed, is a view, has memory, is an input, a parameter or a loss, or has all ten sources;
/// - dst is a view of t, or is computed from it;
/// - the operation of t is not known to write the layout of dst. Most write a contiguous layout; many write, on the
///   CPU, rows with gaps between them; few write elements with gaps between them. No operation of the program's own is
///   known;
/// - a source of t is in the same memory, unless ggml itself would compute t in place of that source;
/// - lastuse does not know the layout of this ggml.
///
/// t must not need gradients: ggml_build_backward_expand aborts on it. Works also if lastuse is not enabled. Aborts if
/// an argument is NULL.
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
