//! `lastuse_version`, `lastuse_enabled`, `lastuse_last_error`, `lastuse_plan_count`: the state of the process.

use std::ffi::c_char;

use crate::ggml::{Allocator, check_enabled};

use super::abort::abort_on_panic;
use super::last_error::{last_error, set_last_error};

/// Returns the version of lastuse, "major.minor.patch". The string is static: the caller does not free it.
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Returns true if lastuse plans the graphs of the caller's ggml; if several ggmls are loaded and the caller is linked
/// with none of them, those of at least one. Returns false if LASTUSE is "off" in the environment, if lastuse does not
/// know the layout of this ggml, if calls of ggml-alloc.h do not reach lastuse (docs/linking.md), and if no ggml is
/// loaded. lastuse_last_error has the reason.
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_enabled() -> bool {
    abort_on_panic(|| check_enabled().inspect_err(|why| set_last_error("lastuse_enabled", why)).is_ok())
}

/// Returns the reason of the latest error in this thread, preceded by the name of the function that failed, or of the
/// one that ggml's log names for it. Every function that fails sets it; a successful call does not clear it. The string
/// is valid until the next error in this thread, or the end of the thread; the caller does not free it. Before the
/// first error it is empty.
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_last_error() -> *const c_char {
    abort_on_panic(last_error)
}

/// Returns how many plans lastuse has made in this process.
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_plan_count() -> u64 {
    abort_on_panic(Allocator::plan_count)
}

/// Panics, to test what a panic does. Only in builds with the feature "panic-probe".
#[cfg(feature = "panic-probe")]
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_panic_probe() {
    abort_on_panic(|| panic!("probed on purpose"));
}
