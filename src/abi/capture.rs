//! `lastuse_set_capture`: planned graphs go to files.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;

use crate::ggml::{Destination, captures, log_error};

use super::whose::expect_enabled;
use super::{guard, refuse};

/// Says where each graph that is planned from now on is written, once, in the format of the tool `lastuse`: without weights and
/// without data. A folder, which is made if it is missing, or a folder and a name for its files in which "%s" stands for that of
/// the graph: "graphs/%s.jsonl.gz". Files whose name ends in ".gz" are compressed, by the zlib of the system where there is
/// one. NULL or an empty string: nowhere. The environment variable LASTUSE_CAPTURE says the same from the start. False, with
/// lastuse_last_error and a line in ggml's log, when the folder cannot be written to, or lastuse is not enabled: nothing is
/// changed then. A graph that cannot be written later on is said in the log, and disturbs nothing else.
///
/// ```c
/// GGML_ASSERT(!lastuse_set_capture("graph.jsonl")); // one file cannot hold them all
/// printf("no captures: %s\n", lastuse_last_error());
/// GGML_ASSERT(lastuse_set_capture(NULL) == lastuse_enabled()); // they go nowhere
/// ```
///
/// # Safety
/// `dir` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_set_capture(dir: *const c_char) -> bool {
    const NAME: &str = "lastuse_set_capture";
    guard(|| {
        if let Err(why) = expect_enabled() {
            refuse(NAME, &why);
            return false;
        }
        // SAFETY: the caller's promise.
        let dir = (!dir.is_null()).then(|| OsStr::from_bytes(unsafe { CStr::from_ptr(dir) }.to_bytes()));
        let destination = dir.filter(|dir| !dir.is_empty()).map(Destination::new).transpose();
        let destination = destination.inspect_err(|why| refuse(NAME, why));
        // A program that says it before the first graph is not to be overruled by the environment.
        captures().follow_environment(log_error);
        destination.map(|destination| captures().set(destination)).is_ok()
    })
}
