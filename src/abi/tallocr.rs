//! `ggml_tallocr_*`: tensors one after the other in a given buffer.

use std::ffi::c_int;
use std::ptr::NonNull;

use crate::ggml::{
    BufferRef, Ggml, NoGgml, Server, TensorRef, abort, ggml_backend_buffer, ggml_of_object, ggml_tallocr, ggml_tensor,
};

use super::whose::usable;
use super::{guard, required};

/// Starts at the first aligned address of `buffer`.
///
/// # Safety
/// `buffer` is a live buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_tallocr_new(buffer: *mut ggml_backend_buffer) -> ggml_tallocr {
    // SAFETY: the caller's promise.
    guard(|| match &usable(unsafe { ggml_of_object(buffer) }).server {
        // SAFETY: the caller's arguments, handed on.
        Server::Original(original) => unsafe { (original.tallocr_new)(buffer) },
        Server::Lastuse(runtime) => {
            let buffer = required(buffer, "ggml_tallocr_new", "buffer").as_ptr();
            // SAFETY: a live buffer.
            let base = unsafe { (runtime.functions.ggml_backend_buffer_get_base)(buffer) };
            // SAFETY: a live buffer.
            let alignment = unsafe { (runtime.functions.ggml_backend_buffer_get_alignment)(buffer) };
            let offset = (base as usize).next_multiple_of(alignment) - base as usize;
            ggml_tallocr { buffer, base, alignment, offset }
        }
    })
}

/// Gives `tensor` the next address; aborts when the buffer is full. Returns ggml's status.
///
/// # Safety
/// `talloc` comes from [`ggml_tallocr_new`], its buffer is alive, and so is `tensor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_tallocr_alloc(talloc: *mut ggml_tallocr, tensor: *mut ggml_tensor) -> c_int {
    // SAFETY: the caller's promise.
    guard(|| match &usable(unsafe { ggml_of_talloc(talloc) }).server {
        // SAFETY: the caller's arguments, handed on.
        Server::Original(original) => unsafe { (original.tallocr_alloc)(talloc, tensor) },
        Server::Lastuse(runtime) => {
            let talloc = required(talloc, "ggml_tallocr_alloc", "talloc");
            let tensor = required(tensor, "ggml_tallocr_alloc", "tensor");
            // SAFETY: alive, and used by this thread only.
            let talloc = unsafe { &mut *talloc.as_ptr() };
            // SAFETY: a live tensor.
            let tensor = unsafe { TensorRef::from_non_null(tensor) };
            // SAFETY: the caller's promise.
            let buffer = unsafe { BufferRef::new(talloc.buffer) };
            let buffer = buffer.unwrap_or_else(|| abort(file!(), line!(), "ggml_tallocr_alloc: talloc has no buffer"));
            runtime.place_next(talloc, buffer, tensor).unwrap_or_else(|message| {
                runtime.log_error(&format!("ggml_tallocr_alloc: {message}\n"));
                abort(file!(), line!(), "not enough space in the buffer")
            })
        }
    })
}

/// The ggml of the buffer.
///
/// # Safety
/// `talloc` is NULL, or as [`ggml_tallocr_new`] has made it, and its buffer is alive.
unsafe fn ggml_of_talloc(talloc: *const ggml_tallocr) -> Result<&'static Ggml, NoGgml> {
    // SAFETY: the caller's promise.
    let buffer =
        NonNull::new(talloc.cast_mut()).map_or(std::ptr::null_mut(), |talloc| unsafe { talloc.as_ref().buffer });
    // SAFETY: a live buffer, or NULL.
    unsafe { ggml_of_object(buffer) }
}
