//! `lastuse_version`, `lastuse_enabled`, `lastuse_last_error`, `lastuse_plan_count`: the state of the process.

use std::ffi::c_char;

use crate::ggml::{Allocator, check_enabled};

use super::abort::abort_on_panic;
use super::last_error::{last_error, set_last_error};

/// Returns the version of lastuse, "major.minor.patch". The string is static: the caller does not free it.
///
/// ```c
/// printf("lastuse %s\n", lastuse_version());
/// GGML_ASSERT(strchr(lastuse_version(), '.') != NULL);
/// ```
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Returns true if lastuse plans the graphs of the caller's ggml.
///
/// ```c
/// printf("graphs are planned by %s\n", lastuse_enabled() ? "lastuse" : "ggml's own allocator");
/// ```
///
/// Returns false when
/// - the environment variable LASTUSE is "off" ("0", "false" and "no" mean the same, in any case), or lastuse does not
///   know the layout of this ggml: the calls of ggml-alloc.h then go to ggml's own allocator;
/// - these calls do not reach lastuse, or only some of them: the program is linked with libggml-base before liblastuse, or
///   ggml was loaded before it, or its compiler has inlined functions of the allocator;
/// - no ggml is loaded.
///
/// lastuse_last_error then has the reason.
///
/// If several ggmls are loaded and the caller is linked with none of them: true if lastuse plans for at least one. Any
/// thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_enabled() -> bool {
    abort_on_panic(|| check_enabled().inspect_err(|why| set_last_error("lastuse_enabled", why)).is_ok())
}

/// Returns the reason of the latest error in this thread, preceded by the name of the function that failed, or of the one
/// that ggml's log names for it. Every function that fails sets it; a successful call does not clear it.
///
/// ```c
/// struct ggml_tensor * rows = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 8);
/// GGML_ASSERT(ggml_dependency(ctx, rows, rows) == NULL); // no tensor depends on itself
/// GGML_ASSERT(strncmp(lastuse_last_error(), "ggml_dependency: ", 17) == 0);
/// ```
///
/// The string is valid until the next error in this thread, or the end of the thread; the caller does not free it.
/// Before the first error it is a static empty string.
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_last_error() -> *const c_char {
    abort_on_panic(last_error)
}

/// Returns how many plans lastuse has made in this process. Any thread may call it.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
/// struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4096);
/// ggml_set_input(input);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, ggml_sum(ctx, ggml_sqr(ctx, input)));
///
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
/// GGML_ASSERT(ggml_gallocr_reserve(galloc, graph));
/// uint64_t plans = lastuse_plan_count();
/// GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graph));
/// GGML_ASSERT(lastuse_plan_count() == plans); // the graph matches the remembered plan
/// ggml_gallocr_free(galloc);
/// ```
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
