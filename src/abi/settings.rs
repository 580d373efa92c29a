//! `lastuse_set_*` and `lastuse_gallocr_set_*` for rules and effort: of later allocators, and of one allocator.

use std::ffi::{CStr, c_char};

use crate::ggml::{change_settings, effort, ggml_gallocr};
use crate::graph::{RuleSetting, UnknownRule};

use super::abort::{abort_on_panic, required};
use super::enabled::is_enabled;
use super::graph_allocator::lastuse_allocator;
use super::last_error::fail;

/// Sets which memory tensors may share, for allocators created from now on, those of schedulers included. Existing
/// allocators keep their rules.
///
/// rules is a list of words separated by commas, in any case; later words override earlier ones: "default" (all sharing
/// that is correct on the device of the buffer), "ggml" (what ggml's own allocator shares), "all" (all sharing that is
/// correct on a CPU), "none", and the names of rules: in-place, views, rows, scans, copies, concat, oldest-source,
/// leafs-last, unread-inputs, inactive, keep-inputs. "no-" before the name of a rule switches it off. The environment
/// variable LASTUSE_RULES sets the rules at the start.
///
/// The rule keep-inputs takes memory instead of sharing it: an input that is used keeps its value to the end where ggml's
/// own allocator would leave it intact, so that a program may set it once and compute several times. It is on by default
/// in allocators that a program uses itself (ggml_gallocr_new, or reservations without buffer ids), and off in those of
/// schedulers, whose programs set inputs before each run. Only "keep-inputs" and "no-keep-inputs" change that.
///
/// ```c
/// GGML_ASSERT(lastuse_set_rules("default,no-unread-inputs")); // inputs keep their bytes while graphs run
/// GGML_ASSERT(lastuse_set_rules("ggml,gpu:default")); // ggml's rules on a CPU, all correct sharing elsewhere
/// GGML_ASSERT(lastuse_set_rules("keep-inputs")); // schedulers too keep inputs that ggml-alloc leaves intact
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend)); // created with that rule
/// GGML_ASSERT(lastuse_set_rules("default")); // for later allocators
/// ggml_gallocr_free(galloc);
/// ```
///
/// For buffers of devices other than the CPU, such a word only affects the rules that are known to be correct there:
/// leafs-last, unread-inputs, inactive and keep-inputs on every device, and rows, scans, copies and concat on devices of ggml's Vulkan
/// backend. The backends of devices fuse nodes, such as a product and the sum that follows it, and rely on what ggml's own
/// allocator computes in place. So only a word with the name of the device before it changes that, and the other rules:
/// "gpu:no-in-place", "cuda:rows". "vulkan:", "cuda:" (also for ROCm and MUSA) and "metal:" stand for devices of these
/// backends of ggml, from 0.26 on; "gpu:" for all devices other than the CPU; "cpu:" limits a word to CPUs.
///
/// Returns false and changes nothing if a word is unknown; it is in lastuse_last_error and in ggml's log. Returns true, without effect, if lastuse is not enabled; lastuse_last_error has the reason. Aborts if rules is NULL
/// and lastuse is enabled. Any thread may call it.
///
/// # Safety
/// `rules` is a string that ends in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_set_rules(rules: *const c_char) -> bool {
    const NAME: &str = "lastuse_set_rules";
    abort_on_panic(|| {
        if !is_enabled(NAME) {
            return true;
        }
        // SAFETY: NULL or a string, as the caller guarantees.
        let setting = unsafe { parse_rules(NAME, rules) };
        setting.map(|setting| change_settings(|settings| settings.rules = setting)).is_some()
    })
}

/// Sets which memory the tensors of one allocator may share. The allocator drops its plans and keeps its buffers: the
/// next graph is planned anew and, if there are several buffers, must be reserved first.
///
/// ```c
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
/// GGML_ASSERT(lastuse_gallocr_set_rules(galloc, "ggml")); // share only what ggml's own allocator shares
/// ggml_gallocr_free(galloc);
/// ```
///
/// rules has the words of lastuse_set_rules. Returns false and changes nothing if a word is unknown; it
/// is in lastuse_last_error and in ggml's log.
/// Returns true, without effect, if lastuse has not created galloc; lastuse_last_error has the reason. Aborts if galloc
/// or, for an allocator of lastuse, rules is NULL.
///
/// # Safety
/// `galloc` is a live allocator that no other thread uses, and `rules` is a string that ends in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_set_rules(galloc: *mut ggml_gallocr, rules: *const c_char) -> bool {
    const NAME: &str = "lastuse_gallocr_set_rules";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let Some(allocator) = (unsafe { lastuse_allocator(NAME, galloc) }) else { return true };
        // SAFETY: NULL or a string, as the caller guarantees.
        let setting = unsafe { parse_rules(NAME, rules) };
        setting.map(|setting| allocator.set_rules(&setting)).is_some()
    })
}

/// Sets how long allocators created from now on, those of schedulers included, may search for a smaller plan.
///
/// units is in units of work, of which a core does some hundreds of millions a second; 0 means the default, 100000, a
/// fraction of a millisecond. The search runs only where a plan is above its lower bound: for each graph that is
/// planned, for each buffer, and up to three times, with different sharing. Equal graphs and efforts give equal
/// plans, and an effort above the default never gives a larger plan than the default. The environment variable
/// LASTUSE_EFFORT sets the effort at the start.
///
/// ```c
/// lastuse_set_effort(100000000); // about a third of a second where a plan is not at its lower bound
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend)); // created with that effort
/// lastuse_set_effort(0); // for later allocators
/// ggml_gallocr_free(galloc);
/// ```
///
/// Has no effect if lastuse is not enabled; lastuse_last_error has the reason. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_set_effort(units: u64) {
    abort_on_panic(|| {
        if is_enabled("lastuse_set_effort") {
            change_settings(|settings| settings.effort = effort(units));
        }
    });
}

/// Sets how long one allocator may search for a smaller plan. The allocator drops its plans and keeps its buffers: the
/// next graph is planned anew and, if there are several buffers, must be reserved first.
///
/// ```c
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
/// lastuse_gallocr_set_effort(galloc, 100000000); // about a third of a second where a plan is not at its lower bound
/// ggml_gallocr_free(galloc);
/// ```
///
/// units is as in lastuse_set_effort. Has no effect if lastuse has not created galloc; lastuse_last_error has the
/// reason. Aborts if galloc is NULL.
///
/// # Safety
/// `galloc` is a live allocator that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_set_effort(galloc: *mut ggml_gallocr, units: u64) {
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        if let Some(allocator) = unsafe { lastuse_allocator("lastuse_gallocr_set_effort", galloc) } {
            allocator.set_effort(effort(units));
        }
    });
}

/// Parses a list of rules; `None`, and a line in ggml's log, if a word is unknown. Aborts if `rules` is NULL.
///
/// # Safety
/// `rules` is NULL, or a string that ends in NUL.
unsafe fn parse_rules(function: &str, rules: *const c_char) -> Option<RuleSetting> {
    let rules = required(rules.cast_mut(), function, "rules");
    // SAFETY: a string, as the caller guarantees.
    let text = unsafe { CStr::from_ptr(rules.as_ptr()) };
    let setting = text.to_string_lossy().parse();
    setting.inspect_err(|unknown: &UnknownRule| fail(function, unknown)).ok()
}
