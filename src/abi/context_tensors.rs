//! `ggml_backend_alloc_ctx_tensors*`: allocating all tensors of a context at once.

use std::ptr::{NonNull, null_mut};

use crate::ggml::{
    BufferType, Refusal, Runtime, Server, allocate_context, context_size, ggml_of_object, ggml_of_type, note_context,
    settings,
};
use crate::ggml::{abort, ggml_backend, ggml_backend_buffer, ggml_backend_buffer_type, ggml_context};

use super::abort::{abort_on_panic, required};
use super::ggml_of_arguments::found_or_abort;
use super::last_error::{fail, set_last_error};

/// Allocates the tensors of `ctx` that have no memory, in the default buffer type of `backend`. Returns the buffer,
/// which the caller frees; NULL when no tensor needs memory, and on failure, with the reason in lastuse_last_error.
///
/// # Safety
/// `ctx` and `backend` are NULL or live, and no other thread uses `ctx`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_alloc_ctx_tensors(
    ctx: *mut ggml_context,
    backend: *mut ggml_backend,
) -> *mut ggml_backend_buffer {
    const NAME: &str = "ggml_backend_alloc_ctx_tensors";
    // SAFETY: NULL or live, as the caller guarantees.
    abort_on_panic(|| match &found_or_abort(unsafe { ggml_of_object(backend) }).server {
        // SAFETY: ggml's function takes what the caller passes.
        Server::Original(original) => unsafe { (original.alloc_ctx_tensors)(ctx, backend) },
        Server::Lastuse(runtime) => {
            let backend = required(backend, NAME, "backend").as_ptr();
            // SAFETY: a live backend, as the caller guarantees.
            let buft = unsafe { (runtime.functions.ggml_backend_get_default_buffer_type)(backend) };
            // SAFETY: NULL or live, as the caller and the backend guarantee.
            let (ctx, buft) = unsafe { checked_arguments(runtime, NAME, ctx, buft) };
            // SAFETY: a live context that no other thread uses, as the caller guarantees.
            unsafe { allocate(NAME, ctx, buft) }
        }
    })
}

/// Allocates the tensors of `ctx` that have no memory, in buffer type `buft`. Returns the buffer, which the caller
/// frees; NULL when no tensor needs memory, and on failure, with the reason in lastuse_last_error.
///
/// # Safety
/// `ctx` and `buft` are NULL or live, and no other thread uses `ctx`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_alloc_ctx_tensors_from_buft(
    ctx: *mut ggml_context,
    buft: *mut ggml_backend_buffer_type,
) -> *mut ggml_backend_buffer {
    const NAME: &str = "ggml_backend_alloc_ctx_tensors_from_buft";
    // SAFETY: NULL or live, as the caller guarantees.
    abort_on_panic(|| match &found_or_abort(unsafe { ggml_of_type(buft) }).server {
        // SAFETY: ggml's function takes what the caller passes.
        Server::Original(original) => unsafe { (original.alloc_ctx_tensors_from_buft)(ctx, buft) },
        Server::Lastuse(runtime) => {
            // SAFETY: NULL or live, as the caller guarantees.
            let (ctx, buft) = unsafe { checked_arguments(runtime, NAME, ctx, buft) };
            // SAFETY: a live context that no other thread uses, as the caller guarantees.
            unsafe { allocate(NAME, ctx, buft) }
        }
    })
}

/// Allocates the tensors of a context; NULL, with the last error set, if that fails, and NULL if none needs memory.
///
/// # Safety
/// `ctx` is a live context that no other thread uses.
unsafe fn allocate(function: &str, ctx: NonNull<ggml_context>, buft: BufferType) -> *mut ggml_backend_buffer {
    // SAFETY: live, and used by no other thread: see "# Safety".
    let allocated = unsafe { allocate_context(ctx, buft, settings().on_demand.caches) }.inspect_err(|why| match why {
        // ggml has logged that a buffer could not be had, but not why.
        Refusal::TooLarge { .. } => fail(function, why),
        _ => set_last_error(function, why),
    });
    // SAFETY: live: see "# Safety".
    unsafe { note_context(buft.runtime(), ctx) };
    allocated.unwrap_or(null_mut())
}

/// Returns the bytes that [`ggml_backend_alloc_ctx_tensors_from_buft`] would allocate; 0 when no tensor needs memory.
///
/// # Safety
/// `ctx` and `buft` are NULL or live, and no other thread changes `ctx`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_alloc_ctx_tensors_from_buft_size(
    ctx: *mut ggml_context,
    buft: *mut ggml_backend_buffer_type,
) -> usize {
    const NAME: &str = "ggml_backend_alloc_ctx_tensors_from_buft_size";
    // SAFETY: NULL or live, as the caller guarantees.
    abort_on_panic(|| match &found_or_abort(unsafe { ggml_of_type(buft) }).server {
        Server::Original(original) => match original.alloc_ctx_tensors_from_buft_size {
            // SAFETY: ggml's function takes what the caller passes.
            Some(function) => unsafe { function(ctx, buft) },
            None => abort(file!(), line!(), &format!("{NAME}: this ggml has no such function")),
        },
        Server::Lastuse(runtime) => {
            // SAFETY: NULL or live, as the caller guarantees.
            let (ctx, buft) = unsafe { checked_arguments(runtime, NAME, ctx, buft) };
            // SAFETY: a live context, as the caller guarantees.
            usize::try_from(unsafe { context_size(ctx, buft) }).unwrap_or(usize::MAX)
        }
    })
}

/// Aborts where ggml does: if one of the arguments is NULL, or the tensors of `ctx` get their memory when they are
/// made.
///
/// # Safety
/// `ctx` and `buft` are NULL or live and of this ggml.
unsafe fn checked_arguments(
    runtime: &'static Runtime,
    function: &str,
    ctx: *mut ggml_context,
    buft: *mut ggml_backend_buffer_type,
) -> (NonNull<ggml_context>, BufferType) {
    let ctx = required(ctx, function, "ctx");
    let buft = required(buft, function, "buft");
    // SAFETY: a live context, as the caller guarantees.
    if !unsafe { (runtime.functions.ggml_get_no_alloc)(ctx.as_ptr()) } {
        abort(file!(), line!(), &format!("{function}: ctx was made without no_alloc: its tensors have memory already"));
    }
    // SAFETY: a live buffer type, as the caller guarantees.
    (ctx, unsafe { BufferType::new(runtime, buft) })
}
