//! `lastuse_set_capture`: writing planned graphs to files.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;

use crate::ggml::{Destination, captures, log_error};

use super::abort::abort_on_panic;
use super::enabled::check_enabled_or_not_loaded;
use super::last_error::fail;

/// Sets the folder to which graphs are written when they are planned: each distinct graph once, without weights and
/// data, in the format that the tool lastuse reads (docs/captures.md). LASTUSE_CAPTURE sets it at the start. dir is a
/// folder, which is created if it is missing, or a folder and a pattern for file names in which "%s" stands for the
/// name of the graph: "graphs/%s.jsonl.gz". NULL or an empty string ends writing. The string is copied. Returns false
/// if the folder cannot be written to or lastuse is not enabled; a graph that cannot is only logged.
///
/// # Safety
/// `dir` is NULL, or a string that ends in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_set_capture(dir: *const c_char) -> bool {
    const NAME: &str = "lastuse_set_capture";
    abort_on_panic(|| {
        if let Err(why) = check_enabled_or_not_loaded() {
            fail(NAME, &why);
            return false;
        }
        // SAFETY: a string, as the caller guarantees.
        let dir = (!dir.is_null()).then(|| OsStr::from_bytes(unsafe { CStr::from_ptr(dir) }.to_bytes()));
        let destination = dir.filter(|dir| !dir.is_empty()).map(Destination::new).transpose();
        let destination = destination.inspect_err(|why| fail(NAME, why));
        // The environment, which is read once, must not override a call before the first graph.
        captures().follow_environment(log_error);
        destination.map(|destination| captures().set(destination)).is_ok()
    })
}
