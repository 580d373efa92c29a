//! `lastuse_gallocr_lower_bound` and `lastuse_gallocr_wanted_size`: bytes of the latest plan.

use std::ffi::c_int;

use crate::ggml::ggml_gallocr;

use super::abort::abort_on_panic;
use super::buffer_ids::checked_buffer_id;
use super::graph_allocator::lastuse_allocator;

/// Returns the lower bound of the latest plan for a buffer, in bytes: no plan with the same live ranges is smaller.
/// Compare it with ggml_gallocr_get_buffer_size.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
/// struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4096);
/// ggml_set_input(input);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, ggml_sum(ctx, ggml_sqr(ctx, input)));
///
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
/// GGML_ASSERT(ggml_gallocr_reserve(galloc, graph));
/// size_t size = ggml_gallocr_get_buffer_size(galloc, 0);
/// size_t lower_bound = lastuse_gallocr_lower_bound(galloc, 0);
/// GGML_ASSERT(lower_bound <= size);
/// printf("%zu bytes, of which a better plan could save %zu at most\n", size, size - lower_bound);
/// ggml_gallocr_free(galloc);
/// ```
///
/// Returns 0 for an id that repeats the buffer type of an earlier one, and before the first plan. Also returns 0, with
/// the reason in lastuse_last_error, if lastuse has not created galloc. Aborts if galloc is NULL or has no buffer with
/// this id.
///
/// # Safety
/// `galloc` is a live allocator that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_lower_bound(galloc: *mut ggml_gallocr, buffer_id: c_int) -> usize {
    const NAME: &str = "lastuse_gallocr_lower_bound";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let Some(allocator) = (unsafe { lastuse_allocator(NAME, galloc) }) else { return 0 };
        let id = checked_buffer_id(NAME, allocator, buffer_id);
        usize::try_from(allocator.lower_bound(id)).unwrap_or(usize::MAX)
    })
}

/// Returns the bytes that the latest plan requires for a buffer, even if they could not be allocated: how much memory
/// to free, or what to report to the user, after ggml_gallocr_reserve has returned false.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
/// struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, (int64_t) 1 << 50); // far too large
/// ggml_set_input(input);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, ggml_sum(ctx, input));
///
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
/// GGML_ASSERT(!ggml_gallocr_reserve(galloc, graph));
/// fprintf(stderr, "%zu bytes are needed\n", lastuse_gallocr_wanted_size(galloc, 0));
/// GGML_ASSERT(!lastuse_enabled() || lastuse_gallocr_wanted_size(galloc, 0) > ggml_nbytes(input));
/// ggml_gallocr_free(galloc);
/// ```
///
/// Returns 0 and aborts in the same cases as lastuse_gallocr_lower_bound.
///
/// # Safety
/// `galloc` is a live allocator that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_wanted_size(galloc: *mut ggml_gallocr, buffer_id: c_int) -> usize {
    const NAME: &str = "lastuse_gallocr_wanted_size";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let Some(allocator) = (unsafe { lastuse_allocator(NAME, galloc) }) else { return 0 };
        let id = checked_buffer_id(NAME, allocator, buffer_id);
        usize::try_from(allocator.required_size(id)).unwrap_or(usize::MAX)
    })
}
