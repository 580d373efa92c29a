//! Environment variables, and the words for on and off in them.

use std::ffi::{CStr, OsStr, OsString};
use std::fmt;
use std::str::FromStr;

use crate::ggml::platform::text;
use crate::settings::{Key, is_one_of, means_off};

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

/// The value of a variable that switches something on or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switch {
    /// on, 1, true, yes or empty.
    On,
    /// off, 0, false or no.
    #[default]
    Off,
}

/// A word that means neither on nor off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownSwitch(String);

impl fmt::Display for UnknownSwitch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is unknown; expected on, 1, true, yes, off, 0, false, no", self.0)
    }
}

impl FromStr for Switch {
    type Err = UnknownSwitch;

    fn from_str(text: &str) -> Result<Self, UnknownSwitch> {
        let word = text.trim();
        match word {
            _ if means_off(word) => Ok(Self::Off),
            "" => Ok(Self::On),
            _ if is_one_of(word, &["on", "1", "true", "yes"]) => Ok(Self::On),
            _ => Err(UnknownSwitch(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_on_and_off_are_accepted_in_any_case() {
        for off in ["off", "OFF", "Off", "0", "false", "FALSE", "no", "No", " off\n"] {
            assert_eq!(off.parse(), Ok(Switch::Off), "{off:?}");
        }
        for on in ["", " ", "on", "ON", "1", "true", "True", "yes"] {
            assert_eq!(on.parse(), Ok(Switch::On), "{on:?}");
        }
    }

    #[test]
    fn unknown_words_are_quoted_in_the_error() {
        let wrong = "offf".parse::<Switch>().expect_err("an unknown word");
        assert_eq!(wrong.to_string(), "\"offf\" is unknown; expected on, 1, true, yes, off, 0, false, no");
    }
}
