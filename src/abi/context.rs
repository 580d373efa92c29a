//! `lastuse_context_*`: contexts that need no size.

use std::ffi::c_int;
use std::fmt::Display;
use std::ptr::null_mut;

use crate::ggml::{
    ContextMode, ContextOptions, NotLive, NotRealized, Runtime, free_context, is_freed, new_context, realize_context,
};
use crate::ggml::{ggml_backend_buffer_type, ggml_context, ggml_of_type};

use super::arguments::buffer_type;
use super::c_types::{ContextKindNumber, enum_value, sized_struct};
use super::call::{Call, Failed, call};

/// When the tensors of a context get their memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum lastuse_context_kind {
    /// For weights, inputs and caches: in host memory when made, or in a given buffer type when first needed.
    LASTUSE_CONTEXT_IMMEDIATE = 0,
    /// For graphs: when a graph is allocated (ggml_gallocr_alloc_graph and the like), as with no_alloc of ggml_init.
    LASTUSE_CONTEXT_DEFERRED = 1,
}

/// Parameters of lastuse_context_new.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lastuse_context_params {
    /// sizeof(struct lastuse_context_params).
    pub struct_size: usize,
    /// The buffer type of an immediate context, which must outlive it; NULL: host memory, and for deferred contexts.
    pub buft: *mut ggml_backend_buffer_type,
    /// The largest size of the context in bytes of address space, rounded up to whole pages; 0: the default.
    pub address_space: usize,
    /// An enum ggml_backend_buffer_usage for buffers of buft: GGML_BACKEND_BUFFER_USAGE_WEIGHTS for the weights of a
    /// model, so that ggml_backend_sched runs operations where they are; 0 otherwise.
    pub usage: c_int,
}

sized_struct!(lastuse_context_params);

/// Creates a ggml context that needs no size: it reserves address space, and takes memory only as tensors and graphs
/// are made in it. All functions of ggml work with it, except that the caller frees it with lastuse_context_free.
/// ggml_reset empties it for reuse: its pages and addresses stay. See docs/contexts.md. params may be NULL. Returns
/// NULL if address space cannot be reserved, if a deferred context is given a buffer type, if kind or usage has no
/// valid value, and if lastuse does not know the layout of this ggml.
///
/// # Safety
/// `params` is NULL or points to struct_size bytes, and its buffer type is NULL or outlives the context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_context_new(
    kind: ContextKindNumber,
    params: *const lastuse_context_params,
) -> *mut ggml_context {
    call("lastuse_context_new", |call| {
        let defaults = lastuse_context_params { struct_size: 0, buft: null_mut(), address_space: 0, usage: 0 };
        // SAFETY: NULL or of its stated size: see "# Safety".
        let params = unsafe { call.params_if_any(params) }.unwrap_or(defaults);
        // SAFETY: NULL or live: see "# Safety".
        let runtime = call.runtime(unsafe { ggml_of_type(params.buft) })?;
        // SAFETY: NULL or outlives the context: see "# Safety".
        let options = call.done(unsafe { options(runtime, kind, &params) })?;
        call.done(new_context(runtime, options))
    })
}

/// Allocates all tensors without memory of an immediate context with a buffer type; views get the memory of their
/// roots. Call it before data is set, and before a graph is passed to ggml_backend_sched; a ggml_gallocr realizes the
/// contexts that its graphs read by itself. Returns true, at once, if there is nothing to do. Returns false if there is
/// not enough memory, where tensors that got some keep it and the next call continues; for a deferred context; and, if
/// debug builds do not abort, for one that is NULL, freed or not lastuse's.
///
/// # Safety
/// No other thread uses the context or its tensors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_context_realize(ctx: *mut ggml_context) -> bool {
    call("lastuse_context_realize", |call| {
        // SAFETY: no other thread uses it: see "# Safety".
        match unsafe { realize_context(ctx) } {
            Ok(()) => Ok(true),
            Err(NotRealized::NotLive(why)) => Err(misused(call, &why)),
            Err(why) => Err(call.refuse(&why)),
        }
    })
}

/// Frees a context of lastuse_context_new and the buffers of its tensors; does nothing for NULL. ggml_free is not
/// enough: it keeps memory and address space. Its tensors, and graphs that read them, must not be used any more. A
/// context that was freed before, or that is not from lastuse_context_new, is left unchanged; in debug builds of
/// lastuse, both abort.
///
/// # Safety
/// No other thread uses the context, and nothing uses it or its tensors afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_context_free(ctx: *mut ggml_context) {
    call("lastuse_context_free", |call| {
        if ctx.is_null() {
            return Ok(());
        }
        // SAFETY: no other thread uses it, and nothing does afterwards: see "# Safety".
        unsafe { free_context(ctx) }.map_err(|not_live| misused(call, &not_live))
    });
}

/// Reports a mistake of the program: aborts in debug builds, otherwise sets the last error and logs it.
fn misused(call: Call, why: &dyn Display) -> Failed {
    if cfg!(debug_assertions) {
        call.abort(why);
    }
    call.refuse(why)
}

/// In debug builds, aborts if one of the addresses is in a context that was freed recently.
pub(super) fn expect_not_freed(call: Call, addresses: &[usize]) {
    if addresses.iter().any(|&address| is_freed(address)) {
        misused(call, &NotLive::Freed);
    }
}

/// Returns the context that the arguments request.
///
/// # Errors
/// A message: which argument is wrong.
///
/// # Safety
/// The buffer type is NULL, or of this ggml and outlives the context.
unsafe fn options(
    runtime: &'static Runtime,
    kind: ContextKindNumber,
    params: &lastuse_context_params,
) -> Result<ContextOptions, String> {
    let kinds = [
        (lastuse_context_kind::LASTUSE_CONTEXT_IMMEDIATE as u32, ContextMode::Immediate),
        (lastuse_context_kind::LASTUSE_CONTEXT_DEFERRED as u32, ContextMode::Deferred),
    ];
    let kind = enum_value("kind", kind, "lastuse_context_kind", &kinds)?;
    let usage = u32::try_from(params.usage).ok().filter(|&usage| usage <= 2);
    let not_usage =
        || format!("params->usage is {}, which is not a value of enum ggml_backend_buffer_usage", params.usage);
    let usage = usage.ok_or_else(not_usage)?;
    // SAFETY: NULL, or of this ggml and outlives the context: see "# Safety".
    let buft = unsafe { buffer_type(runtime, params.buft) };
    if kind == ContextMode::Deferred && buft.is_some() {
        return Err("a deferred context has no buffers: params->buft must be NULL".to_owned());
    }
    let address_space = Some(params.address_space).filter(|&bytes| bytes > 0);
    Ok(ContextOptions { kind, memory: buft.map(|buft| (buft, usage)), address_space })
}
