//! lastuse's own entry points: the source of `include/lastuse.h`.

use std::ffi::{c_char, c_int};

use crate::ggml::{Allocator, Server, ggml_gallocr, runtime};

use super::gallocr::buffer;
use super::guard;

/// The version of lastuse, "major.minor.patch". The string is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// True when lastuse does the work; false when every call is handed on to ggml's own allocator: because the environment
/// variable LASTUSE is "off", or because this ggml has a layout that lastuse does not know.
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_enabled() -> bool {
    guard(|| matches!(runtime(), Server::Lastuse(_)))
}

/// How many plans lastuse has made in this process.
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_plan_count() -> u64 {
    guard(Allocator::plan_count)
}

/// The lower bound, in bytes, of the latest plan for a buffer: no plan with its lifetimes is smaller. Compare it with
/// ggml_gallocr_get_buffer_size. 0 for an id that repeats the buffer type of an earlier one, and when lastuse is not
/// enabled. Aborts when galloc is NULL or has no such buffer id.
///
/// # Safety
/// `galloc` is alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_lower_bound(galloc: *mut ggml_gallocr, buffer_id: c_int) -> usize {
    guard(|| match runtime() {
        Server::Original(_) => 0,
        Server::Lastuse(_) => {
            // SAFETY: the caller's promise.
            let (allocator, id) = unsafe { buffer("lastuse_gallocr_lower_bound", galloc, buffer_id) };
            usize::try_from(allocator.lower_bound(id)).unwrap_or(usize::MAX)
        }
    })
}

/// The bytes that the latest plan wants for a buffer, also when they could not be had: what to free, or to tell the
/// user, after ggml_gallocr_reserve has returned false. Otherwise as lastuse_gallocr_lower_bound.
///
/// # Safety
/// `galloc` is alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_wanted_size(galloc: *mut ggml_gallocr, buffer_id: c_int) -> usize {
    guard(|| match runtime() {
        Server::Original(_) => 0,
        Server::Lastuse(_) => {
            // SAFETY: the caller's promise.
            let (allocator, id) = unsafe { buffer("lastuse_gallocr_wanted_size", galloc, buffer_id) };
            usize::try_from(allocator.wanted_size(id)).unwrap_or(usize::MAX)
        }
    })
}

/// Panics inside: for the test of what a panic does. Only in builds with the feature "panic-probe".
#[cfg(feature = "panic-probe")]
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_panic_probe() {
    guard(|| panic!("probed on purpose"));
}
