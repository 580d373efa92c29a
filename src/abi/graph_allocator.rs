//! What a `ggml_gallocr_t` points to: an allocator of lastuse or of ggml.

use std::ptr::NonNull;

use crate::ggml::{
    Allocator, Ggml, NotEnabled, Original, abort, ggml_gallocr, ggml_of_galloc, is_forwarded, set_current_ggml,
};

use super::abort::required;
use super::enabled::set_not_enabled;
use super::ggml_of_arguments::found_or_abort;

/// An allocator, by what made it.
pub(super) enum GraphAllocator<'g> {
    /// Made by lastuse.
    Lastuse(&'g mut Allocator),
    /// Made by the original functions of this ggml.
    Original(&'static Ggml, &'static Original),
}

/// Returns the allocator that the argument `galloc` points to. Aborts if it is NULL, and if neither lastuse nor a known
/// ggml can have made it.
///
/// # Safety
/// `galloc` is NULL, or live for `'g` and used by this thread only.
pub(super) unsafe fn graph_allocator<'g>(function: &str, galloc: *mut ggml_gallocr) -> GraphAllocator<'g> {
    let galloc = required(galloc, function, "galloc");
    // SAFETY: live for `'g` and used by this thread only, as the caller guarantees.
    if let Some(allocator) = unsafe { made_by_lastuse(galloc) } {
        return GraphAllocator::Lastuse(allocator);
    }
    let ggml = found_or_abort(ggml_of_galloc(galloc));
    match &ggml.original {
        Some(original) => GraphAllocator::Original(ggml, original),
        None => abort(file!(), line!(), &format!("{function}: galloc is no allocator, or was freed")),
    }
}

/// Returns the allocator that the argument `galloc` points to. Aborts if it is NULL.
///
/// # Errors
/// [`NotEnabled`]: why lastuse has not made it.
///
/// # Safety
/// `galloc` is NULL, or live for `'g` and used by this thread only.
pub(super) unsafe fn try_lastuse_allocator<'g>(
    function: &str,
    galloc: *mut ggml_gallocr,
) -> Result<&'g mut Allocator, NotEnabled> {
    let galloc = required(galloc, function, "galloc");
    // SAFETY: live for `'g` and used by this thread only, as the caller guarantees.
    let allocator = unsafe { made_by_lastuse(galloc) };
    allocator.ok_or_else(|| NotEnabled::of_allocator(is_forwarded(galloc)))
}

/// Returns the allocator that the argument `galloc` points to; `None`, with the last error set, if lastuse has not made
/// it. Aborts if it is NULL.
///
/// # Safety
/// `galloc` is NULL, or live for `'g` and used by this thread only.
pub(super) unsafe fn lastuse_allocator<'g>(function: &str, galloc: *mut ggml_gallocr) -> Option<&'g mut Allocator> {
    // SAFETY: NULL, or live for `'g` and used by this thread only, as the caller guarantees.
    unsafe { try_lastuse_allocator(function, galloc) }.inspect_err(|why| set_not_enabled(function, why)).ok()
}

/// Returns `galloc` if lastuse has made it, and makes its ggml the current one of this thread.
///
/// # Safety
/// `galloc` is live for `'g` and used by this thread only.
unsafe fn made_by_lastuse<'g>(galloc: NonNull<ggml_gallocr>) -> Option<&'g mut Allocator> {
    // SAFETY: live, as the caller guarantees.
    let mut made = unsafe { Allocator::from_c(galloc) }?;
    // SAFETY: an allocator of lastuse, live for `'g` and used by this thread only.
    let allocator = unsafe { made.as_mut() };
    set_current_ggml(Some(&allocator.runtime().functions));
    Some(allocator)
}
