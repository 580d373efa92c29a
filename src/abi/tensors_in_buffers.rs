//! Tensors that are placed one after the other: `ggml_tallocr_*` in a given buffer, `ggml_backend_alloc_ctx_tensors*` all
//! those of a context in a new one.

use std::ffi::c_int;
use std::ptr::{NonNull, null_mut};

use crate::ggml::{
    BufferRef, BufferType, Refusal, Runtime, STATUS_SUCCESS, Server, abort, allocate_context, context_size,
    ggml_of_object, ggml_of_type, note_context, settings,
};
use crate::ggml::{
    ggml_backend, ggml_backend_buffer, ggml_backend_buffer_type, ggml_context, ggml_tallocr, ggml_tensor,
};

use super::call::{Call, size, total};

/// Returns an allocator whose next address is the first aligned one of `buffer`.
///
/// # Safety
/// `buffer` is NULL or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_tallocr_new(buffer: *mut ggml_backend_buffer) -> ggml_tallocr {
    // SAFETY: NULL or live: see "# Safety".
    total("ggml_tallocr_new", |call| match &call.found(unsafe { ggml_of_object(buffer) }).server {
        // SAFETY: ggml's function takes what the caller passes.
        Server::Original(original) => unsafe { (original.tallocr_new)(buffer) },
        Server::Lastuse(runtime) => {
            let buffer = call.required("buffer", buffer).as_ptr();
            // SAFETY: a live buffer: see "# Safety".
            let base = unsafe { (runtime.functions.ggml_backend_buffer_get_base)(buffer) };
            // SAFETY: a live buffer: see "# Safety".
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
    total("ggml_tallocr_alloc", |call| {
        // SAFETY: not NULL, so live: see "# Safety".
        let buffer = NonNull::new(talloc).map_or(null_mut(), |talloc| unsafe { talloc.as_ref() }.buffer);
        // SAFETY: NULL, or the live buffer of the allocator: see "# Safety".
        match &call.found(unsafe { ggml_of_object(buffer) }).server {
            // SAFETY: ggml's function takes what the caller passes.
            Server::Original(original) => unsafe { (original.tallocr_alloc)(talloc, tensor) },
            // SAFETY: NULL, or live and of this thread: see "# Safety".
            Server::Lastuse(runtime) => unsafe { place_next(call, runtime, talloc, tensor) },
        }
    })
}

/// # Safety
/// `talloc` and `tensor` are NULL, or live and used by this thread only.
unsafe fn place_next(
    call: Call,
    runtime: &'static Runtime,
    talloc: *mut ggml_tallocr,
    tensor: *mut ggml_tensor,
) -> c_int {
    let mut talloc = call.required("talloc", talloc);
    // SAFETY: NULL, or live and of this thread: see "# Safety".
    let tensor = unsafe { call.tensor("tensor", tensor) };
    // SAFETY: live and used by this thread only: see "# Safety".
    let talloc = unsafe { talloc.as_mut() };
    // SAFETY: the buffer of a live allocator is live.
    let buffer = unsafe { BufferRef::new(talloc.buffer) }.unwrap_or_else(|| call.abort(&"talloc has no buffer"));
    let status = runtime.place_next(talloc, buffer, tensor).unwrap_or_else(|message| {
        runtime.log_error(&format!("{}: {message}\n", call.name));
        abort(file!(), line!(), "not enough space in the buffer")
    });
    if status != STATUS_SUCCESS {
        call.refuse_silently(&format_args!("the backend could not initialize tensor {}", tensor.name()));
    }
    status
}

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
    // SAFETY: NULL or live: see "# Safety".
    total("ggml_backend_alloc_ctx_tensors", |call| match &call.found(unsafe { ggml_of_object(backend) }).server {
        // SAFETY: ggml's function takes what the caller passes.
        Server::Original(original) => unsafe { (original.alloc_ctx_tensors)(ctx, backend) },
        Server::Lastuse(runtime) => {
            let backend = call.required("backend", backend).as_ptr();
            // SAFETY: a live backend: see "# Safety".
            let buft = unsafe { (runtime.functions.ggml_backend_get_default_buffer_type)(backend) };
            // SAFETY: NULL or live: see "# Safety"; the type lives as long as its backend.
            unsafe { allocate(call, runtime, ctx, buft) }
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
    // SAFETY: NULL or live: see "# Safety".
    total("ggml_backend_alloc_ctx_tensors_from_buft", |call| match &call.found(unsafe { ggml_of_type(buft) }).server {
        // SAFETY: ggml's function takes what the caller passes.
        Server::Original(original) => unsafe { (original.alloc_ctx_tensors_from_buft)(ctx, buft) },
        // SAFETY: NULL or live: see "# Safety".
        Server::Lastuse(runtime) => unsafe { allocate(call, runtime, ctx, buft) },
    })
}

/// Allocates the tensors of a context; NULL, with the last error set, if that fails, and NULL if none needs memory.
///
/// # Safety
/// `ctx` and `buft` are NULL, or live and of this ggml; no other thread uses `ctx`.
unsafe fn allocate(
    call: Call,
    runtime: &'static Runtime,
    ctx: *mut ggml_context,
    buft: *mut ggml_backend_buffer_type,
) -> *mut ggml_backend_buffer {
    // SAFETY: NULL or live: see "# Safety".
    let (ctx, buft) = unsafe { checked_arguments(call, runtime, ctx, buft) };
    // SAFETY: live, and used by no other thread: see "# Safety".
    let allocated = unsafe { allocate_context(ctx, buft, settings().on_demand.caches) }.map_err(|why| match why {
        // ggml has logged that a buffer could not be had, but not why.
        Refusal::TooLarge { .. } => call.refuse(&why),
        _ => call.refuse_silently(&why),
    });
    // SAFETY: live: see "# Safety".
    unsafe { note_context(runtime, ctx) };
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
    // SAFETY: NULL or live: see "# Safety".
    total("ggml_backend_alloc_ctx_tensors_from_buft_size", |call| {
        // SAFETY: NULL, or a live buffer type: see "# Safety".
        match &call.found(unsafe { ggml_of_type(buft) }).server {
            Server::Original(original) => {
                let function = call.original(original.alloc_ctx_tensors_from_buft_size);
                // SAFETY: ggml's function takes what the caller passes.
                unsafe { function(ctx, buft) }
            }
            Server::Lastuse(runtime) => {
                // SAFETY: NULL or live: see "# Safety".
                let (ctx, buft) = unsafe { checked_arguments(call, runtime, ctx, buft) };
                // SAFETY: a live context: see "# Safety".
                size(unsafe { context_size(ctx, buft) })
            }
        }
    })
}

/// Aborts where ggml does: if one of the arguments is NULL, or the tensors of `ctx` get their memory when they are
/// made.
///
/// # Safety
/// `ctx` and `buft` are NULL, or live and of this ggml.
unsafe fn checked_arguments(
    call: Call,
    runtime: &'static Runtime,
    ctx: *mut ggml_context,
    buft: *mut ggml_backend_buffer_type,
) -> (NonNull<ggml_context>, BufferType) {
    let (ctx, buft) = (call.required("ctx", ctx), call.required("buft", buft));
    // SAFETY: a live context: see "# Safety".
    if !unsafe { (runtime.functions.ggml_get_no_alloc)(ctx.as_ptr()) } {
        call.abort(&"ctx was made without no_alloc: its tensors have memory already");
    }
    // SAFETY: a live buffer type of this ggml: see "# Safety".
    (ctx, unsafe { BufferType::new(runtime, buft) })
}
