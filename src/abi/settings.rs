//! `lastuse_set_*` and `lastuse_gallocr_set_*` for rules and effort: of later allocators, and of one allocator.

use std::ffi::{CStr, c_char};

use crate::ggml::{change_settings, effort, ggml_gallocr};
use crate::graph::{RuleSetting, UnknownRule};

use super::abort::{abort_on_panic, required};
use super::enabled::is_enabled;
use super::graph_allocator::lastuse_allocator;
use super::last_error::fail;

/// Sets which memory tensors may share, for allocators created from now on, those of schedulers included. rules is a
/// list of words separated by commas, in any case, later ones overriding earlier ones: "default", "ggml" (what ggml's
/// own allocator shares), "all", "none", the names of rules in docs/planning.md ("no-" before a name switches it off),
/// and words for some devices ("gpu:no-in-place", "cuda:rows"). LASTUSE_RULES sets them at the start. Returns false and
/// changes nothing if a word is unknown; true, without effect, if lastuse is not enabled.
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

/// Sets which memory the tensors of one allocator may share, by the words of lastuse_set_rules. The allocator drops its
/// plans and keeps its buffers: with several buffers, the next graph must be reserved first. Returns false and changes
/// nothing if a word is unknown; true, without effect, if lastuse has not created galloc.
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

/// Sets how long allocators created from now on, those of schedulers included, may search for a smaller plan where one
/// is above its lower bound. LASTUSE_EFFORT sets it at the start. units is in units of work, of which a core does some
/// hundreds of millions a second; 0 means the default, 100000, a fraction of a millisecond. The limit is for each
/// buffer of each graph, up to three times. Equal graphs and efforts give equal plans; an effort above the default
/// never gives a larger plan than the default.
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_set_effort(units: u64) {
    abort_on_panic(|| {
        if is_enabled("lastuse_set_effort") {
            change_settings(|settings| settings.effort = effort(units));
        }
    });
}

/// Sets how long one allocator may search for a smaller plan, in the units of lastuse_set_effort. The allocator drops
/// its plans and keeps its buffers: with several buffers, the next graph must be reserved first. Has no effect if
/// lastuse has not created galloc.
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
