//! `lastuse_tensor_dedicate`: results in memory of the program.

use std::ptr::null_mut;

use crate::ggml::{BufferRef, TensorRef, dedicate, ggml_context, ggml_of_object, ggml_tallocr, ggml_tensor};

use super::abort::{abort_on_panic, required};
use super::ggml_of_arguments::runtime_or_fail;
use super::last_error::fail;

/// Gives t, a result of a graph, the next bytes of a buffer of the program, where it survives later graphs. Returns the tensor
/// that lies there, flagged as an output: t itself, whose operation then writes there; or, if t is a view or the device of the
/// buffer cannot compute it, a new tensor in ctx that copies t there, for ggml_build_forward_expand.
///
/// Called once for a tensor, before its graph is reserved or allocated. talloc, from ggml_tallocr_new, hands out the bytes in
/// the order of calls. Returns NULL in the cases that docs/steps.md lists; ctx may then have a tensor that nothing uses.
///
/// # Safety
/// `ctx` has room for one more tensor; `t` and the buffer of `talloc` stay live as long as the returned tensor is used. No other
/// thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_tensor_dedicate(
    ctx: *mut ggml_context,
    t: *mut ggml_tensor,
    talloc: *mut ggml_tallocr,
) -> *mut ggml_tensor {
    const NAME: &str = "lastuse_tensor_dedicate";
    abort_on_panic(|| {
        let (context, tensor) = (required(ctx, NAME, "ctx"), required(t, NAME, "t"));
        let mut talloc = required(talloc, NAME, "talloc");
        // SAFETY: live, and used by this thread only: see "# Safety".
        let talloc = unsafe { talloc.as_mut() };
        // SAFETY: a live tensor of this thread: see "# Safety".
        let tensor = unsafe { TensorRef::from_non_null(tensor) };
        // SAFETY: live as long as the tensor is used: see "# Safety".
        let buffer = unsafe { BufferRef::from_non_null(required(talloc.buffer, NAME, "talloc->buffer")) };
        // SAFETY: a live buffer.
        let ggml = unsafe { ggml_of_object(buffer.as_ptr().cast_const()) };
        let Some(runtime) = runtime_or_fail(NAME, ggml) else { return null_mut() };
        // SAFETY: a live context of this thread, with room: see "# Safety".
        let dedicated = unsafe { dedicate(runtime, context.as_ptr(), tensor, (talloc, buffer)) };
        dedicated.map(TensorRef::as_ptr).unwrap_or_else(|why| {
            fail(NAME, &format_args!("{why} (t is \"{}\")", tensor.name()));
            null_mut()
        })
    })
}
