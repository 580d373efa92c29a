//! `ggml_backend_alloc_ctx_tensors*`: memory for all tensors of a context at once.

use std::ptr::NonNull;

use crate::ggml::{BufferType, Runtime, Server, allocate_context, context_size, ggml_of_object, ggml_of_type};
use crate::ggml::{abort, ggml_backend, ggml_backend_buffer, ggml_backend_buffer_type, ggml_context};

use super::whose::usable;
use super::{guard, required};

/// Memory for the tensors of `ctx` in the default buffer type of `backend`; the caller owns the buffer.
/// NULL on failure, or when no tensor needs memory.
///
/// # Safety
/// Both are alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_alloc_ctx_tensors(
    ctx: *mut ggml_context,
    backend: *mut ggml_backend,
) -> *mut ggml_backend_buffer {
    const NAME: &str = "ggml_backend_alloc_ctx_tensors";
    // SAFETY: the caller's promise.
    guard(|| match &usable(unsafe { ggml_of_object(backend) }).server {
        // SAFETY: the caller's arguments, handed on.
        Server::Original(original) => unsafe { (original.alloc_ctx_tensors)(ctx, backend) },
        Server::Lastuse(runtime) => {
            let backend = required(backend, NAME, "backend").as_ptr();
            // SAFETY: a live backend.
            let buft = unsafe { (runtime.functions.ggml_backend_get_default_buffer_type)(backend) };
            let (ctx, buft) = arguments(runtime, NAME, ctx, buft);
            // SAFETY: a live context.
            unsafe { allocate_context(ctx, buft) }
        }
    })
}

/// The same in a given buffer type.
///
/// # Safety
/// Both are alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_alloc_ctx_tensors_from_buft(
    ctx: *mut ggml_context,
    buft: *mut ggml_backend_buffer_type,
) -> *mut ggml_backend_buffer {
    const NAME: &str = "ggml_backend_alloc_ctx_tensors_from_buft";
    // SAFETY: the caller's promise.
    guard(|| match &usable(unsafe { ggml_of_type(buft) }).server {
        // SAFETY: the caller's arguments, handed on.
        Server::Original(original) => unsafe { (original.alloc_ctx_tensors_from_buft)(ctx, buft) },
        Server::Lastuse(runtime) => {
            let (ctx, buft) = arguments(runtime, NAME, ctx, buft);
            // SAFETY: a live context.
            unsafe { allocate_context(ctx, buft) }
        }
    })
}

/// The bytes that [`ggml_backend_alloc_ctx_tensors_from_buft`] would allocate. 0 when no tensor needs memory.
///
/// # Safety
/// Both are alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_alloc_ctx_tensors_from_buft_size(
    ctx: *mut ggml_context,
    buft: *mut ggml_backend_buffer_type,
) -> usize {
    const NAME: &str = "ggml_backend_alloc_ctx_tensors_from_buft_size";
    // SAFETY: the caller's promise.
    guard(|| match &usable(unsafe { ggml_of_type(buft) }).server {
        Server::Original(original) => match original.alloc_ctx_tensors_from_buft_size {
            // SAFETY: the caller's arguments, handed on.
            Some(function) => unsafe { function(ctx, buft) },
            None => abort(file!(), line!(), &format!("{NAME}: this ggml has no such function")),
        },
        Server::Lastuse(runtime) => {
            let (ctx, buft) = arguments(runtime, NAME, ctx, buft);
            // SAFETY: a live context.
            usize::try_from(unsafe { context_size(ctx, buft) }).unwrap_or(usize::MAX)
        }
    })
}

fn arguments(
    runtime: &'static Runtime,
    function: &str,
    ctx: *mut ggml_context,
    buft: *mut ggml_backend_buffer_type,
) -> (NonNull<ggml_context>, BufferType) {
    let ctx = required(ctx, function, "ctx");
    let buft = required(buft, function, "buft");
    // SAFETY: a live context.
    if !unsafe { (runtime.functions.ggml_get_no_alloc)(ctx.as_ptr()) } {
        abort(file!(), line!(), &format!("{function}: ctx was made without no_alloc: its tensors have memory already"));
    }
    // SAFETY: a live buffer type.
    (ctx, unsafe { BufferType::new(runtime, buft) })
}
