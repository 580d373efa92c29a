//! Environment variables, and the words in them that switch something on or off.

use std::ffi::{CStr, OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;

/// Copies the value of a variable, if it is set.
///
/// Variables are read with `getenv`, when lastuse first needs each of them: Rust's own functions would copy the whole environment, and
/// take a lock that C does not know. As with every `getenv`, no other thread may call `setenv` meanwhile; a program that changes the
/// environment does so before it starts threads.
fn value_of(name: &CStr) -> Option<OsString> {
    // SAFETY: the name ends in NUL; that no thread changes the environment meanwhile is every C program's promise (see above).
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: values end in NUL, and it is copied before anything else is called.
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

/// What a variable that only switches something on or off says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Also an empty value.
    On,
    /// See [`means_off`].
    Off,
}

/// A word that means neither.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownSwitch(String);

impl fmt::Display for UnknownSwitch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is unknown; known are on, 1, true, yes, off, 0, false, no", self.0)
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

/// Is it one of the usual words for "off"?
pub fn means_off(word: &str) -> bool {
    is_one_of(word.trim(), &["off", "0", "false", "no"])
}

fn is_one_of(word: &str, known: &[&str]) -> bool {
    known.iter().any(|known| word.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_words_switch_in_any_case() {
        for off in ["off", "OFF", "Off", "0", "false", "FALSE", "no", "No", " off\n"] {
            assert_eq!(off.parse(), Ok(Switch::Off), "{off:?}");
        }
        for on in ["", " ", "on", "ON", "1", "true", "True", "yes"] {
            assert_eq!(on.parse(), Ok(Switch::On), "{on:?}");
        }
    }

    #[test]
    fn misspelled_words_are_named() {
        let wrong = "offf".parse::<Switch>().expect_err("there is no such word");
        assert_eq!(wrong.to_string(), "\"offf\" is unknown; known are on, 1, true, yes, off, 0, false, no");
    }
}
