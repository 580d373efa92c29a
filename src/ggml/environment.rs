//! Environment variables.

use std::ffi::{CStr, OsStr, OsString};

use crate::ggml::platform::text;
use crate::settings::{Key, means_off};

/// Returns a copy of the value of a variable, if it is set.
///
/// Variables are read with `getenv` when lastuse first needs them: Rust's own functions would copy the whole
/// environment, and take a lock that C does not know. As with every `getenv`, no other thread may call `setenv`
/// meanwhile: programs change their environment before they start threads.
pub fn value_of(name: &CStr) -> Option<OsString> {
    // SAFETY: the name ends in NUL; no thread changes the environment meanwhile (see above).
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: values end in NUL, and this one is copied before anything else is called.
    Some(text(unsafe { CStr::from_ptr(value) }).into_owned())
}

/// Returns the path in the variable of a setting.
pub fn path_in(setting: Key) -> Option<OsString> {
    value_of(setting.variable()).filter(|value| is_path(value))
}

/// Returns whether a value is a path. Words that mean off are not, but "./off" is one.
pub fn is_path(value: &OsStr) -> bool {
    !value.is_empty() && !value.to_str().is_some_and(means_off)
}

/// Returns the value of the variable of a setting as text, if it is set. Invalid UTF-8 is replaced by U+FFFD.
pub fn text_of(setting: Key) -> Option<String> {
    value_of(setting.variable()).map(|value| value.to_string_lossy().into_owned())
}
