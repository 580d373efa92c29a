//! `lastuse_tensor_dedicate`: results in memory of the program's own.

use std::ptr::null_mut;

use crate::ggml::{BufferRef, TensorRef, ggml_backend_buffer, ggml_gallocr, ggml_tensor};

use super::abort::{abort_on_panic, required};
use super::graph_allocator::lastuse_allocator;
use super::last_error::fail;

/// Gives t, a result of a graph, memory in a buffer of the program, where it survives later graphs. Returns the tensor
/// that lies there, flagged as an output: t itself, whose operation then writes there; or, if t is a view or the device
/// of buffer cannot compute it, a new tensor that copies t there, for ggml_build_forward_expand.
///
/// Called once for a tensor, before its graph is reserved or allocated. buffer outlives the tensor and is handed out in
/// the order of calls; copies live until lastuse_gallocr_dedicated_reset or ggml_gallocr_free. With a scheduler, pass
/// an allocator that allocates no graphs. Returns NULL and changes nothing in the cases that docs/steps.md lists.
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
/// them; 0 if there are none, or if lastuse has not created galloc.
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
/// lastuse_tensor_dedicate returned for it are freed. Called before buffer is freed. Does nothing if there is nothing,
/// or if lastuse has not created galloc.
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
