//! `lastuse_tensor_set_output`: results where they are wanted.

use std::ptr::NonNull;

use crate::ggml::{TensorRef, ggml_tensor, set_output};

use super::refusal::{ggml_for, refuse};
use super::whose::ggml_of_tensors;
use super::{guard, required};

/// Makes the operation of t write its result into the memory of dst, so that nothing need be copied there. Answers the
/// tensor that reads dst after t has run: that is t itself, which from now on is a view of dst. ggml_set_output(t, dst), with
/// two arguments, is the same; with one argument it is ggml's own function.
///
/// ```c
/// struct ggml_tensor * cache   = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 8, 16);
/// struct ggml_tensor * slots   = ggml_view_2d(ctx, cache, 8, 2, cache->nb[1], 4*cache->nb[1]);
/// struct ggml_tensor * weights = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 4, 8);
/// struct ggml_tensor * input   = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 4, 2);
/// for (int i = 0; i < 32; i++) { ((float *) weights->data)[i] = 0.5f; }
/// for (int i = 0; i <  8; i++) { ((float *) input->data)[i]   = 1.0f; }
/// ggml_set_no_alloc(ctx, true); // what is computed gets its memory from an allocator
/// struct ggml_tensor * rows = ggml_mul_mat(ctx, weights, input);
/// rows = ggml_set_output(rows, slots); // NULL: ggml_cpy(ctx, rows, slots) does it too
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
/// It works in every walker of graphs; a scheduler runs t where dst is. When lastuse plans the graph, it checks what only the
/// whole graph can tell:
/// - whoever else reads or writes that memory comes before or after t by the graph itself, that is through sources, as with
///   ggml_dependency: of two nodes that touch memory which a result was redirected to, one of them writing, one must
///   depend on the other;
/// - no view of t is older than this call;
/// - where dst has gaps, what reads t itself is known to read such a layout, since it may have been made when t had none.
///   Others read ggml_cont of t, or ggml_view_4d of t, made after this call, which ggml then judges by its strides.
///
/// Otherwise ggml_gallocr_reserve, ggml_gallocr_alloc_graph and what a scheduler makes of them answer false, and ggml's log
/// tells the rule and the two tensors.
///
/// NULL when it cannot be done, with the reason in lastuse_last_error and in ggml's log; nothing was changed then, and a
/// copy does the same. That is so when
/// - t and dst are the same, or differ in type or shape, or have no elements; or dst is quantized;
/// - t is not computed, is a view, has memory, is an input, a parameter or a loss, or has all ten sources;
/// - dst is a view of t, or is computed from it;
/// - the operation of t is not known to write such a layout: most write what lies without gaps, many of them, on the CPU,
///   rows with gaps between them, and few write elements with gaps between them. No operation of the program's own is known;
/// - a source of t lies in the same memory, unless ggml itself would compute t in the place of that source;
/// - lastuse does not know the layout of this ggml.
///
/// Not for what gradients are wanted of: ggml_build_backward_expand aborts on results in the memory of others. Aborts when
/// an argument is NULL.
///
/// # Safety
/// Both are alive, and so is dst for as long as t is used; no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_tensor_set_output(t: *mut ggml_tensor, dst: *mut ggml_tensor) -> *mut ggml_tensor {
    const NAME: &str = "lastuse_tensor_set_output";
    guard(|| {
        let [result, wanted] = [required(t, NAME, "t"), required(dst, NAME, "dst")].map(|it: NonNull<ggml_tensor>| {
            // SAFETY: the caller's promise.
            unsafe { TensorRef::from_non_null(it) }
        });
        let Some(runtime) = ggml_for(NAME, ggml_of_tensors(&[result, wanted])) else { return std::ptr::null_mut() };
        set_output(runtime, result, wanted).map(|()| t).unwrap_or_else(|why| {
            let (result, wanted) = (result.name(), wanted.name());
            refuse(NAME, &format_args!("{why} (t is \"{result}\", dst is \"{wanted}\")"));
            std::ptr::null_mut()
        })
    })
}
