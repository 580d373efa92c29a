//! `lastuse_tensor_dedicate`: results in memory of the program's own.

use std::ptr::null_mut;

use crate::ggml::{BufferRef, TensorRef, ggml_backend_buffer, ggml_gallocr, ggml_tensor};

use super::abort::{abort_on_panic, required};
use super::graph_allocator::lastuse_allocator;
use super::last_error::fail;

/// Gives t, a result of a graph, memory in a buffer of the program, where it survives later graphs. Returns the tensor
/// that lies there: t itself, whose operation then writes its result into the buffer; or, where that is impossible, a
/// new tensor that copies t there, for ggml_build_forward_expand.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
/// struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
/// ggml_set_input(input);
/// struct ggml_tensor * state = ggml_scale(ctx, input, 2.0f);
/// struct ggml_tensor * last  = ggml_view_1d(ctx, ggml_sqr(ctx, state), 1, 63 * sizeof(float));
///
/// ggml_backend_buffer_type_t buft = ggml_backend_get_default_buffer_type(backend);
/// ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(buft, 4096);
/// ggml_gallocr_t galloc = ggml_gallocr_new(buft);
/// struct ggml_tensor * kept[2];
/// kept[0] = lastuse_tensor_dedicate(galloc, state, buffer);
/// kept[1] = lastuse_tensor_dedicate(galloc, last, buffer);
/// GGML_ASSERT((kept[0] != NULL && kept[1] != NULL) == lastuse_enabled());
/// if (lastuse_enabled()) {
///     GGML_ASSERT(kept[0] == state);  // written by ggml_scale
///     GGML_ASSERT(kept[1] != last);   // a view is copied
///     struct ggml_cgraph * graph = ggml_new_graph(ctx);
///     ggml_build_forward_expand(graph, kept[0]);
///     ggml_build_forward_expand(graph, kept[1]);
///     GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graph));
///     float ones[64], value;
///     for (int i = 0; i < 64; i++) { ones[i] = 1.0f; }
///     ggml_backend_tensor_set(input, ones, 0, sizeof(ones));
///     GGML_ASSERT(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS);
///     ggml_backend_tensor_get(kept[1], &value, 0, sizeof(value)); // also after other graphs
///     GGML_ASSERT(value == 4.0f);
/// }
/// ggml_gallocr_free(galloc);
/// ggml_backend_buffer_free(buffer);
/// ggml_set_no_alloc(ctx, false);
/// ```
///
/// Call it once for a tensor, before its graph is reserved or allocated. t is copied if it is a view (a result of
/// ggml_view, ggml_reshape, ggml_permute, ggml_transpose, of an operation in place, or one redirected by
/// ggml_set_output(t, dst)), and if the device of buffer does not support its operation. A copy is contiguous, and is
/// computed where ggml_build_forward_expand adds it: add it before nodes that write over the memory t is a view of.
/// Views of t, older or newer, follow t. The returned tensor is flagged as an output, so that no backend fuses its
/// operation away.
///
/// Bytes of buffer are handed out in the order of calls, each tensor at a multiple of the alignment: a tensor takes
/// ggml_backend_buft_get_alloc_size, and ggml_backend_buft_get_alignment less 1 more at most.
/// lastuse_gallocr_dedicated_size returns what is taken, lastuse_gallocr_dedicated_reset gives it back. Call that
/// before buffer is freed, and before the tensors of a graph that is built anew are dedicated in buffer again.
///
/// A scheduler runs the returned tensor on the backend of buffer. Its own allocator is hidden, so pass another one that
/// allocates no graphs: it takes no memory.
///
/// Returns NULL and changes nothing, with the reason in lastuse_last_error and in ggml's log, if
/// - t is not computed, or only parts of it since lastuse_graph_split; is an input, has no elements, or has memory already:
///   because it was dedicated before, or its graph is allocated;
/// - t is a view of a tensor that is dedicated or allocated, or of quantized elements that are not in order;
/// - buffer has too few bytes left, belongs to galloc itself, or is of a type that places tensors itself;
/// - the device of buffer can neither compute t nor copy it.
///
/// Also returns NULL, with the reason in lastuse_last_error, if lastuse has not created galloc. Aborts if an argument
/// is NULL.
///
/// # Safety
/// `galloc`, `t` and `buffer` are live, and no other thread uses them. `buffer` stays live as long as the returned
/// tensor is used. A returned copy lives until lastuse_gallocr_dedicated_reset or ggml_gallocr_free, and t as long as
/// graphs with the copy are used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_tensor_dedicate(
    galloc: *mut ggml_gallocr,
    t: *mut ggml_tensor,
    buffer: *mut ggml_backend_buffer,
) -> *mut ggml_tensor {
    const NAME: &str = "lastuse_tensor_dedicate";
    abort_on_panic(|| {
        let (tensor, buffer) = (required(t, NAME, "t"), required(buffer, NAME, "buffer"));
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let Some(allocator) = (unsafe { lastuse_allocator(NAME, galloc) }) else { return null_mut() };
        // SAFETY: a live tensor of this thread, as the caller guarantees.
        let tensor = unsafe { TensorRef::from_non_null(tensor) };
        // SAFETY: live as long as the tensor is used, as the caller guarantees.
        let buffer = unsafe { BufferRef::from_non_null(buffer) };
        let dedicated = allocator.dedicate(tensor, buffer);
        dedicated.map(TensorRef::as_ptr).unwrap_or_else(|why| {
            fail(NAME, &format_args!("{why} (t is \"{}\")", tensor.name()));
            null_mut()
        })
    })
}

/// Returns the bytes of a buffer that tensors dedicated with galloc take, with the gaps that alignment leaves between
/// them; 0 if there are none.
///
/// ```c
/// ggml_set_no_alloc(ctx, true);
/// struct ggml_tensor * t = ggml_neg(ctx, ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64));
/// ggml_backend_buffer_type_t buft = ggml_backend_get_default_buffer_type(backend);
/// ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(buft, 1024);
/// ggml_gallocr_t galloc = ggml_gallocr_new(buft);
/// if (lastuse_tensor_dedicate(galloc, t, buffer) != NULL) {
///     GGML_ASSERT(lastuse_gallocr_dedicated_size(galloc, buffer) == 64 * sizeof(float));
/// }
/// ggml_gallocr_free(galloc);
/// ggml_backend_buffer_free(buffer);
/// ggml_set_no_alloc(ctx, false);
/// ```
///
/// Also returns 0, with the reason in lastuse_last_error, if lastuse has not created galloc. Aborts if an argument is
/// NULL.
///
/// # Safety
/// `galloc` and `buffer` are live, and no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_dedicated_size(
    galloc: *mut ggml_gallocr,
    buffer: *mut ggml_backend_buffer,
) -> usize {
    const NAME: &str = "lastuse_gallocr_dedicated_size";
    abort_on_panic(|| {
        // SAFETY: live, as the caller guarantees.
        let buffer = unsafe { BufferRef::from_non_null(required(buffer, NAME, "buffer")) };
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let Some(allocator) = (unsafe { lastuse_allocator(NAME, galloc) }) else { return 0 };
        usize::try_from(allocator.dedicated_size(buffer)).unwrap_or(usize::MAX)
    })
}

/// Forgets what galloc has dedicated in a buffer: its bytes can be handed out again, and the copies that
/// lastuse_tensor_dedicate returned for it are freed. Does nothing if there is nothing.
///
/// ```c
/// ggml_backend_buffer_type_t buft = ggml_backend_get_default_buffer_type(backend);
/// ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(buft, 1024); // 256 bytes are enough for each graph
/// ggml_gallocr_t galloc = ggml_gallocr_new(buft);
/// ggml_set_no_alloc(ctx, true);
/// for (int i = 0; i < 8 && lastuse_enabled(); i++) {
///     lastuse_gallocr_dedicated_reset(galloc, buffer);
///     struct ggml_tensor * t = ggml_neg(ctx, ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64));
///     GGML_ASSERT(lastuse_tensor_dedicate(galloc, t, buffer) == t);
/// }
/// lastuse_gallocr_dedicated_reset(galloc, buffer);
/// GGML_ASSERT(lastuse_gallocr_dedicated_size(galloc, buffer) == 0);
/// ggml_backend_buffer_free(buffer);
/// ggml_gallocr_free(galloc);
/// ggml_set_no_alloc(ctx, false);
/// ```
///
/// If lastuse has not created galloc, does nothing; the reason is in lastuse_last_error. Aborts if an argument is NULL.
///
/// # Safety
/// `galloc` and `buffer` are live, and no other thread uses them. Copies for `buffer` and graphs with them are not used
/// afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_dedicated_reset(galloc: *mut ggml_gallocr, buffer: *mut ggml_backend_buffer) {
    const NAME: &str = "lastuse_gallocr_dedicated_reset";
    abort_on_panic(|| {
        // SAFETY: live, as the caller guarantees.
        let buffer = unsafe { BufferRef::from_non_null(required(buffer, NAME, "buffer")) };
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        if let Some(allocator) = unsafe { lastuse_allocator(NAME, galloc) } {
            allocator.reset_dedicated(buffer);
        }
    });
}
