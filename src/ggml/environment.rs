//! Environment variables.

use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::switch::means_off;

/// What a variable says, if it is set.
fn value_of(name: &CStr) -> Option<OsString> {
    // SAFETY: the name ends in NUL.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: values end in NUL.
    let value = unsafe { CStr::from_ptr(value) };
    Some(OsStr::from_bytes(value.to_bytes()).to_owned())
}

/// The path that a variable names; a word that means off, as in other variables, names none: "./off" is a path.
pub fn path_in(name: &CStr) -> Option<OsString> {
    value_of(name).filter(|path| !path.is_empty() && !path.to_str().is_some_and(means_off))
}

/// The same as text.
pub fn text_of(name: &CStr) -> Option<String> {
    value_of(name).map(|value| value.to_string_lossy().into_owned())
}
