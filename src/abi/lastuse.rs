//! lastuse's own entry points: the source of `include/lastuse.h`.

use std::ffi::{CStr, c_char, c_int};

use crate::ggml::{Allocator, change_settings, check_enabled, effort, ggml_gallocr, log_error};
use crate::graph::{RuleSetting, UnknownRule};

use super::gallocr::buffer;
use super::whose::{is_enabled, own_or_nothing};
use super::{guard, last_refusal, required};

/// The version of lastuse, "major.minor.patch". The string is never freed.
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

/// True when lastuse does the work for the caller's ggml. False when the calls of ggml-alloc.h are handed on to ggml's own
/// allocator, because the environment variable LASTUSE is "off" ("0", "false" and "no" mean the same, in any case) or because
/// this ggml has a layout that lastuse does not know; when they do not reach lastuse, because the program is linked with
/// libggml-base before liblastuse; and when no ggml is loaded. For a caller that is linked with none of several ggmls: true
/// when lastuse does the work for at least one of them.
///
/// ```c
/// printf("graphs are planned by %s\n", lastuse_enabled() ? "lastuse" : "ggml's own allocator");
/// ```
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_enabled() -> bool {
    guard(|| check_enabled().is_ok())
}

/// Why the latest call of this thread that lastuse refused was refused, with the name of the function first: for those
/// functions that say so. The same goes to ggml's log. The string stays until the next refusal in this thread or the end of
/// the thread. Before the first refusal it is empty and static: it stays for ever. The caller never frees it.
///
/// ```c
/// struct ggml_tensor * rows = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 8);
/// GGML_ASSERT(ggml_dependency(ctx, rows, rows) == NULL); // nothing comes after itself
/// GGML_ASSERT(strncmp(lastuse_last_error(), "ggml_dependency: ", 17) == 0);
/// ```
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_last_error() -> *const c_char {
    last_refusal()
}

/// How many plans lastuse has made in this process.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will lie in the compute buffer
/// struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4096);
/// ggml_set_input(input);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, ggml_sum(ctx, ggml_sqr(ctx, input)));
///
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
/// GGML_ASSERT(ggml_gallocr_reserve(galloc, graph));
/// uint64_t plans = lastuse_plan_count();
/// GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graph));
/// GGML_ASSERT(lastuse_plan_count() == plans); // the graph fits the plan that is there
/// ggml_gallocr_free(galloc);
/// ```
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_plan_count() -> u64 {
    guard(Allocator::plan_count)
}

/// The lower bound, in bytes, of the latest plan for a buffer: no plan with its live ranges is smaller. Compare it with
/// ggml_gallocr_get_buffer_size. 0 for an id that repeats the buffer type of an earlier one, and, with the reason in
/// lastuse_last_error, for an allocator that lastuse has not made: when it is not enabled. Aborts when galloc is NULL or has
/// no such buffer id.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will lie in the compute buffer
/// struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4096);
/// ggml_set_input(input);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, ggml_sum(ctx, ggml_sqr(ctx, input)));
///
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
/// GGML_ASSERT(ggml_gallocr_reserve(galloc, graph));
/// size_t size = ggml_gallocr_get_buffer_size(galloc, 0);
/// size_t lower_bound = lastuse_gallocr_lower_bound(galloc, 0);
/// GGML_ASSERT(lower_bound <= size);
/// printf("%zu bytes, of which a better plan could save %zu at most\n", size, size - lower_bound);
/// ggml_gallocr_free(galloc);
/// ```
///
/// # Safety
/// `galloc` is alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_lower_bound(galloc: *mut ggml_gallocr, buffer_id: c_int) -> usize {
    const NAME: &str = "lastuse_gallocr_lower_bound";
    guard(|| {
        // SAFETY: the caller's promise.
        let Some(allocator) = (unsafe { own_or_nothing(NAME, galloc) }) else { return 0 };
        let id = buffer(NAME, allocator, buffer_id);
        usize::try_from(allocator.lower_bound(id)).unwrap_or(usize::MAX)
    })
}

/// The bytes that the latest plan wants for a buffer, also when they could not be had: what to free, or to tell the
/// user, after ggml_gallocr_reserve has returned false. Otherwise as lastuse_gallocr_lower_bound.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will lie in the compute buffer
/// struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, (int64_t) 1 << 50); // far too large
/// ggml_set_input(input);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, ggml_sum(ctx, input));
///
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
/// GGML_ASSERT(!ggml_gallocr_reserve(galloc, graph));
/// fprintf(stderr, "%zu bytes are needed\n", lastuse_gallocr_wanted_size(galloc, 0));
/// GGML_ASSERT(!lastuse_enabled() || lastuse_gallocr_wanted_size(galloc, 0) > ggml_nbytes(input));
/// ggml_gallocr_free(galloc);
/// ```
///
/// # Safety
/// `galloc` is alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_wanted_size(galloc: *mut ggml_gallocr, buffer_id: c_int) -> usize {
    const NAME: &str = "lastuse_gallocr_wanted_size";
    guard(|| {
        // SAFETY: the caller's promise.
        let Some(allocator) = (unsafe { own_or_nothing(NAME, galloc) }) else { return 0 };
        let id = buffer(NAME, allocator, buffer_id);
        usize::try_from(allocator.required_size(id)).unwrap_or(usize::MAX)
    })
}

/// Sets which memory may be shared by the allocators made from now on, those of schedulers included. Words separated by
/// commas, in any case, the later ones over the earlier ones: "default" (everything that is right on the device of the
/// buffer), "ggml" (what ggml's own allocator shares), "all" (everything that is right on a CPU), "none", and the names of
/// rules, with "no-" before those to switch off: in-place, views, rows, copies, concat, oldest-source, unread-inputs,
/// inactive. The environment variable LASTUSE_RULES sets them from the start. False, and a line in ggml's log, when a word
/// is unknown: nothing is changed then. Without effect, with the reason in lastuse_last_error, when lastuse is not enabled.
/// Aborts when rules is NULL.
///
/// For buffers of other devices than a CPU such a word switches only what is right on every device: unread-inputs and
/// inactive. Their backends fuse nodes (a product and the sum behind it, say) without comparing addresses, relying on what
/// ggml's own allocator computes in place; so that is changed only by a word that names the device, with "gpu:" before it:
/// "gpu:no-in-place". "gpu:" stands for all devices that are no CPU, and "cpu:" limits a word to CPUs.
///
/// ```c
/// GGML_ASSERT(lastuse_set_rules("default,no-unread-inputs")); // inputs keep their bytes while graphs run
/// GGML_ASSERT(lastuse_set_rules("ggml,gpu:default")); // ggml's rules on a CPU, and all that is right on other devices
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend)); // with that rule
/// GGML_ASSERT(lastuse_set_rules("default")); // for the allocators after it
/// ggml_gallocr_free(galloc);
/// ```
///
/// # Safety
/// `rules` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_set_rules(rules: *const c_char) -> bool {
    const NAME: &str = "lastuse_set_rules";
    guard(|| {
        if !is_enabled(NAME) {
            return true;
        }
        // SAFETY: the caller's promise.
        let setting = unsafe { setting(NAME, rules) };
        setting.map(|setting| change_settings(|settings| settings.rules = setting)).is_some()
    })
}

/// As lastuse_set_rules for one allocator, which then forgets its plans: the next graph is planned anew, and with several
/// buffers has to be reserved. Its buffers stay. Aborts when galloc or rules is NULL.
///
/// ```c
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
/// GGML_ASSERT(lastuse_gallocr_set_rules(galloc, "ggml")); // shares what ggml's own allocator shares, no more
/// ggml_gallocr_free(galloc);
/// ```
///
/// # Safety
/// `galloc` is alive, and `rules` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_set_rules(galloc: *mut ggml_gallocr, rules: *const c_char) -> bool {
    const NAME: &str = "lastuse_gallocr_set_rules";
    guard(|| {
        // SAFETY: the caller's promise.
        let Some(allocator) = (unsafe { own_or_nothing(NAME, galloc) }) else { return true };
        // SAFETY: the caller's promise.
        let setting = unsafe { setting(NAME, rules) };
        setting.map(|setting| allocator.set_rules(&setting)).is_some()
    })
}

/// Says how much the allocators made from now on, those of schedulers included, may search for a smaller plan, in units
/// of work, of which a core does some hundreds of millions a second; 0 means the default, 100000, a fraction of a
/// millisecond. It is spent only where the plan is above its lower bound: each time that a graph is planned, for each
/// buffer, and up to three times, for other rules of sharing. The same graph and effort give the same plan, and an
/// effort above the default never a larger one than the default. The environment variable LASTUSE_EFFORT says the same
/// from the start. Without effect when lastuse is not enabled.
///
/// ```c
/// lastuse_set_effort(100000000); // about a third of a second where a plan is not at its lower bound
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend)); // with that effort
/// lastuse_set_effort(0); // for the allocators after it
/// ggml_gallocr_free(galloc);
/// ```
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_set_effort(units: u64) {
    guard(|| {
        if is_enabled("lastuse_set_effort") {
            change_settings(|settings| settings.effort = effort(units));
        }
    });
}

/// As lastuse_set_effort for one allocator, which then forgets its plans: the next graph is planned anew, and with
/// several buffers has to be reserved. Its buffers stay. Aborts when galloc is NULL.
///
/// ```c
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
/// lastuse_gallocr_set_effort(galloc, 100000000); // about a third of a second where a plan is not at its lower bound
/// ggml_gallocr_free(galloc);
/// ```
///
/// # Safety
/// `galloc` is alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_set_effort(galloc: *mut ggml_gallocr, units: u64) {
    guard(|| {
        // SAFETY: the caller's promise.
        if let Some(allocator) = unsafe { own_or_nothing("lastuse_gallocr_set_effort", galloc) } {
            allocator.set_effort(effort(units));
        }
    });
}

/// What a string says of rules; nothing, and a line in ggml's log, when it is wrong.
///
/// # Safety
/// `rules` is a string.
unsafe fn setting(function: &str, rules: *const c_char) -> Option<RuleSetting> {
    let rules = required(rules.cast_mut(), function, "rules");
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(rules.as_ptr()) };
    let setting = text.to_string_lossy().parse();
    setting.map_err(|unknown: UnknownRule| log_error(&format!("{function}: {unknown}\n"))).ok()
}

/// Panics inside: for the test of what a panic does. Only in builds with the feature "panic-probe".
#[cfg(feature = "panic-probe")]
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_panic_probe() {
    guard(|| panic!("probed on purpose"));
}
