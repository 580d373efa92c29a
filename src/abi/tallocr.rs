//! `ggml_tallocr_*`: placing tensors one after the other in a given buffer.

use std::ffi::c_int;
use std::ptr::{NonNull, null_mut};

use crate::ggml::{
    BufferRef, Ggml, NoGgml, Runtime, STATUS_SUCCESS, Server, TensorRef, abort, ggml_backend_buffer, ggml_of_object,
    ggml_tallocr, ggml_tensor,
};

use super::abort::{abort_on_panic, required};
use super::ggml_of_arguments::found_or_abort;
use super::last_error::set_last_error;

/// Returns an allocator whose next address is the first aligned one of `buffer`.
///
/// # Safety
/// `buffer` is NULL or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_tallocr_new(buffer: *mut ggml_backend_buffer) -> ggml_tallocr {
    // SAFETY: NULL or live, as the caller guarantees.
    abort_on_panic(|| match &found_or_abort(unsafe { ggml_of_object(buffer) }).server {
        // SAFETY: ggml's function takes what the caller passes.
        Server::Original(original) => unsafe { (original.tallocr_new)(buffer) },
        Server::Lastuse(runtime) => {
            let buffer = required(buffer, "ggml_tallocr_new", "buffer").as_ptr();
            // SAFETY: a live buffer, as the caller guarantees.
            let base = unsafe { (runtime.functions.ggml_backend_buffer_get_base)(buffer) };
            // SAFETY: a live buffer, as the caller guarantees.
            let alignment = unsafe { (runtime.functions.ggml_backend_buffer_get_alignment)(buffer) };
            let offset = (base as usize).next_multiple_of(alignment) - base as usize;
            ggml_tallocr { buffer, base, alignment, offset }
        }
    })
}

/// Assigns the next address to `tensor`; aborts when the buffer is full. Returns the `enum ggml_status` of the backend,
/// which initializes the tensor.
///
/// # Safety
/// `talloc` is NULL, or comes from [`ggml_tallocr_new`] and its buffer is live; `tensor` is NULL or live. No other
/// thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_tallocr_alloc(talloc: *mut ggml_tallocr, tensor: *mut ggml_tensor) -> c_int {
    // SAFETY: NULL, or of a live buffer, as the caller guarantees.
    abort_on_panic(|| match &found_or_abort(unsafe { ggml_of_talloc(talloc) }).server {
        // SAFETY: ggml's function takes what the caller passes.
        Server::Original(original) => unsafe { (original.tallocr_alloc)(talloc, tensor) },
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        Server::Lastuse(runtime) => unsafe { place_next(runtime, talloc, tensor) },
    })
}

/// # Safety
/// `talloc` and `tensor` are NULL, or live and used by this thread only.
unsafe fn place_next(runtime: &'static Runtime, talloc: *mut ggml_tallocr, tensor: *mut ggml_tensor) -> c_int {
    let mut talloc = required(talloc, "ggml_tallocr_alloc", "talloc");
    let tensor = required(tensor, "ggml_tallocr_alloc", "tensor");
    // SAFETY: live and used by this thread only, as the caller guarantees.
    let talloc = unsafe { talloc.as_mut() };
    // SAFETY: live and used by this thread only, as the caller guarantees.
    let tensor = unsafe { TensorRef::from_non_null(tensor) };
    // SAFETY: the buffer of a live allocator is live, as the caller guarantees.
    let buffer = unsafe { BufferRef::new(talloc.buffer) };
    let buffer = buffer.unwrap_or_else(|| abort(file!(), line!(), "ggml_tallocr_alloc: talloc has no buffer"));
    let status = runtime.place_next(talloc, buffer, tensor).unwrap_or_else(|message| {
        runtime.log_error(&format!("ggml_tallocr_alloc: {message}\n"));
        abort(file!(), line!(), "not enough space in the buffer")
    });
    if status != STATUS_SUCCESS {
        set_last_error(
            "ggml_tallocr_alloc",
            &format_args!("the backend could not initialize tensor {}", tensor.name()),
        );
    }
    status
}

/// Finds the ggml of the buffer of `talloc`.
///
/// # Errors
/// [`NoGgml`].
///
/// # Safety
/// `talloc` is NULL, or comes from [`ggml_tallocr_new`], and its buffer is live.
unsafe fn ggml_of_talloc(talloc: *mut ggml_tallocr) -> Result<&'static Ggml, NoGgml> {
    // SAFETY: live, as the caller guarantees.
    let buffer = NonNull::new(talloc).map_or(null_mut(), |talloc| unsafe { talloc.as_ref() }.buffer);
    // SAFETY: NULL or live, as the caller guarantees.
    unsafe { ggml_of_object(buffer) }
}
