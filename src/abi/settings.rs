//! `lastuse_set` and `lastuse_gallocr_set`: settings by name.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;

use crate::ggml::{AllocatorSetting, ggml_gallocr, set};

use super::abort::{abort_on_panic, required};
use super::enabled::is_enabled;
use super::graph_allocator::lastuse_allocator;
use super::last_error::fail;

/// Sets a setting of the process by name, as its environment variable LASTUSE_NAME does at the start. For allocators
/// created from now on, those of schedulers included: "rules" (which memory tensors may share), "effort" (how long to
/// search for smaller plans), "reorder", "budget", "verify" (checks at run time); for all: "retain" (names of tensors
/// that stay readable), "capture" (a folder for planned graphs), "dump" and "dump_dir" (names of tensors for
/// lastuse_graph_dump, and its folder), "accounting" (a file for what devices held). See docs/settings.md for values.
/// NULL and "" are the default. Strings are copied. Returns false and changes nothing if name is unknown, value is not
/// valid or lastuse is not enabled.
///
/// # Safety
/// `name` is a string that ends in NUL, and `value` is NULL or one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_set(name: *const c_char, value: *const c_char) -> bool {
    const NAME: &str = "lastuse_set";
    abort_on_panic(|| {
        // SAFETY: NULL or a string, as the caller guarantees.
        let [name, value] = unsafe { name_and_value(NAME, name, value) };
        is_enabled(NAME) && set(&name.to_string_lossy(), value).inspect_err(|why| fail(NAME, why)).is_ok()
    })
}

/// Sets "rules" or "effort" of one allocator, as lastuse_set does for later ones. The allocator drops its plans and
/// keeps its buffers: with several buffers, the next graph must be reserved first. Returns false and changes nothing if
/// name is another one, value is not valid or lastuse has not created galloc.
///
/// # Safety
/// `galloc` is a live allocator that no other thread uses; `name` is a string that ends in NUL, and `value` is NULL or one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_set(
    galloc: *mut ggml_gallocr,
    name: *const c_char,
    value: *const c_char,
) -> bool {
    const NAME: &str = "lastuse_gallocr_set";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let allocator = unsafe { lastuse_allocator(NAME, galloc) };
        // SAFETY: NULL or a string, as the caller guarantees.
        let [name, value] = unsafe { name_and_value(NAME, name, value) };
        let Some(allocator) = allocator else { return false };
        let parsed = AllocatorSetting::parse(&name.to_string_lossy(), value).inspect_err(|why| fail(NAME, why));
        parsed
            .map(|setting| match setting {
                AllocatorSetting::Rules(rules) => allocator.set_rules(&rules),
                AllocatorSetting::Effort(effort) => allocator.set_effort(effort),
            })
            .is_ok()
    })
}

/// Returns the strings; aborts if `name` is NULL.
///
/// # Safety
/// `name` and `value` are NULL, or strings that end in NUL.
unsafe fn name_and_value<'s>(function: &str, name: *const c_char, value: *const c_char) -> [&'s OsStr; 2] {
    let value = if value.is_null() { c"".as_ptr() } else { value };
    [required(name.cast_mut(), function, "name").as_ptr().cast_const(), value].map(|text| {
        // SAFETY: not NULL, so a string: see "# Safety".
        OsStr::from_bytes(unsafe { CStr::from_ptr(text) }.to_bytes())
    })
}
