//! `lastuse_context_*`: contexts that need no size.

use std::ffi::c_int;
use std::fmt::Display;
use std::ptr::{NonNull, null_mut};

use crate::ggml::{
    BufferType, ContextKind, ContextMode, ContextOptions, NotLive, NotRealized, Runtime, abort, free_context,
};
use crate::ggml::{ggml_backend_buffer_type, ggml_context, ggml_of_type, is_freed, new_context, realize_context};

use super::abort::abort_on_panic;
use super::ggml_of_arguments::runtime_or_fail;
use super::last_error::fail;
use super::struct_size::{callers_struct, sized_struct};

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
    kind: ContextKind,
    params: *const lastuse_context_params,
) -> *mut ggml_context {
    const NAME: &str = "lastuse_context_new";
    abort_on_panic(|| {
        // SAFETY: NULL or of its stated size, as the caller guarantees.
        let params = unsafe { checked_params(NAME, params) };
        // SAFETY: NULL or live, as the caller guarantees.
        let ggml = unsafe { ggml_of_type(params.buft) };
        let Some(runtime) = runtime_or_fail(NAME, ggml) else { return null_mut() };
        // SAFETY: NULL or outlives the context, as the caller guarantees.
        let request = unsafe { request(runtime, kind, &params) };
        let made = request.and_then(|request| new_context(runtime, request).map_err(|why| why.to_string()));
        made.inspect_err(|why| fail(NAME, why)).unwrap_or(null_mut())
    })
}

/// Allocates all tensors without memory of an immediate context with a buffer type; views get the memory of their
/// roots. Called before data is set, and before a graph is passed to ggml_backend_sched; a ggml_gallocr realizes the
/// contexts that its graphs read by itself. Returns true, at once, if there is nothing to do. Returns false if there is
/// not enough memory, where tensors that got some keep it and the next call continues; for a deferred context; and, if
/// debug builds do not abort, for one that is NULL, freed or not lastuse's.
///
/// # Safety
/// No other thread uses the context or its tensors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_context_realize(ctx: *mut ggml_context) -> bool {
    const NAME: &str = "lastuse_context_realize";
    abort_on_panic(|| {
        // SAFETY: no other thread uses it, as the caller guarantees.
        let realized = unsafe { realize_context(ctx) };
        match &realized {
            Ok(()) => {}
            Err(NotRealized::NotLive(why)) => fail_on_misuse(NAME, why),
            Err(why) => fail(NAME, why),
        }
        realized.is_ok()
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
    const NAME: &str = "lastuse_context_free";
    abort_on_panic(|| {
        if !ctx.is_null() {
            // SAFETY: no other thread uses it, and nothing does afterwards, as the caller guarantees.
            unsafe { free_context(ctx) }.unwrap_or_else(|not_live| fail_on_misuse(NAME, &not_live));
        }
    });
}

/// Reports a mistake of the program: aborts in debug builds, otherwise sets the last error and logs it.
fn fail_on_misuse(function: &str, why: &dyn Display) {
    if cfg!(debug_assertions) {
        abort(file!(), line!(), &format!("{function}: {why}"));
    }
    fail(function, why);
}

/// In debug builds, aborts if one of the addresses is in a context that was freed recently.
pub(super) fn expect_not_freed(function: &str, addresses: &[usize]) {
    if addresses.iter().any(|&address| is_freed(address)) {
        fail_on_misuse(function, &NotLive::Freed);
    }
}

/// Returns the parameters; the defaults for NULL. Aborts if the struct is too small.
///
/// # Safety
/// `params` is NULL, or points to as many bytes as its first field states.
unsafe fn checked_params(function: &str, params: *const lastuse_context_params) -> lastuse_context_params {
    // SAFETY: NULL or of its stated size, as the caller guarantees.
    let given = unsafe { callers_struct(function, "params", params.cast_mut()) };
    let defaults = || lastuse_context_params { struct_size: 0, buft: null_mut(), address_space: 0, usage: 0 };
    given.map_or_else(defaults, |params| params.read())
}

/// Returns the context that the arguments request.
///
/// # Errors
/// A message: which argument is wrong.
///
/// # Safety
/// The buffer type is NULL, or of this ggml and outlives the context.
unsafe fn request(
    runtime: &'static Runtime,
    kind: ContextKind,
    params: &lastuse_context_params,
) -> Result<ContextOptions, String> {
    let kind = match kind {
        kind if kind == lastuse_context_kind::LASTUSE_CONTEXT_IMMEDIATE as ContextKind => ContextMode::Immediate,
        kind if kind == lastuse_context_kind::LASTUSE_CONTEXT_DEFERRED as ContextKind => ContextMode::Deferred,
        other => return Err(format!("kind is {other}, which is no enum lastuse_context_kind")),
    };
    let usage = u32::try_from(params.usage).ok().filter(|&usage| usage <= 2);
    let usage = usage.ok_or_else(|| format!("params->usage is {}: no enum ggml_backend_buffer_usage", params.usage))?;
    // SAFETY: not NULL, so it outlives the context, as the caller guarantees.
    let buft = NonNull::new(params.buft).map(|buft| unsafe { BufferType::new(runtime, buft) });
    if kind == ContextMode::Deferred && buft.is_some() {
        return Err("a deferred context has no memory of its own: params->buft must be NULL".to_owned());
    }
    let address_space = Some(params.address_space).filter(|&bytes| bytes > 0);
    Ok(ContextOptions { kind, memory: buft.map(|buft| (buft, usage)), address_space })
}
