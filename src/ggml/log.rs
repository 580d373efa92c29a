//! What lastuse says, and to whom.
//!
//! Errors and warnings go to ggml's logger. Whoever sets LASTUSE_LOG gets what is important enough on the standard error;
//! ggml's logger then gets the same where the program has put its own in place, and would only say it twice otherwise.

use std::ffi::{CStr, CString};
use std::fmt;
use std::io::Write;
use std::str::FromStr;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::ggml::bindings::ggml_log_callback;
use crate::ggml::environment::means_off;
use crate::ggml::environment::text_of;
use crate::ggml::linking::functions::Functions;

/// Says how much is said: the word for a [`Level`], or one that means off, which is the default.
const LEVEL: &CStr = c"LASTUSE_LOG";

/// How important a message is, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something cannot be done.
    Error,
    /// Something is done otherwise than was asked for.
    Warn,
    /// What each allocator plans.
    Info,
    /// What is decided at each call, and how long it takes.
    Debug,
}

const LEVELS: [(&str, Level); 4] =
    [("error", Level::Error), ("warn", Level::Warn), ("info", Level::Info), ("debug", Level::Debug)];

/// A word that names no level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownLevel(String);

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = LEVELS.map(|(word, _)| word).join(", ");
        write!(f, "there is no level {:?}; known are {known}, off", self.0)
    }
}

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(word: &str) -> Result<Self, UnknownLevel> {
        let known = LEVELS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word));
        known.map(|(_, level)| *level).ok_or_else(|| UnknownLevel(word.to_owned()))
    }
}

impl Level {
    /// ggml's number for it.
    fn in_ggml(self) -> u32 {
        match self {
            Self::Debug => 1,
            Self::Info => 2,
            Self::Warn => 3,
            Self::Error => 4,
        }
    }
}

/// What the user wants to read, if the user says it.
static WANTED: OnceLock<Option<Level>> = OnceLock::new();

/// The functions that ggmls print their messages with where the program says nothing else, by the addresses of their
/// `ggml_log_internal`; `None` where that cannot be found out.
static OWN_LOGGERS: Mutex<Vec<(usize, Option<usize>)>> = Mutex::new(Vec::new());

/// Will anybody hear of this?
pub fn is_heard(functions: &Functions, level: Level) -> bool {
    level <= wanted(functions).unwrap_or(Level::Warn)
}

/// Says something: a line with its end.
pub fn say(functions: &Functions, level: Level, message: &str) {
    if !is_heard(functions, level) {
        return;
    }
    if wanted(functions).is_none() {
        return tell_ggml(functions, level, message);
    }
    let line = format!("lastuse: {}", message.strip_prefix(crate::ggml::version::SIGNATURE).unwrap_or(message));
    // There is nobody left to tell when the standard error is closed.
    let _ = std::io::stderr().write_all(line.as_bytes());
    let own = own_logger(functions);
    if own.is_some() && own != current_logger(functions) {
        tell_ggml(functions, level, message);
    }
}

/// What the user wants to read. A word that names no level is told when it is first read.
fn wanted(functions: &Functions) -> Option<Level> {
    if let Some(&wanted) = WANTED.get() {
        return wanted;
    }
    let said = text_of(LEVEL).unwrap_or_default();
    let said =
        Some(said.trim()).filter(|word| !word.is_empty() && !means_off(word)).map(str::parse::<Level>).transpose();
    let wanted = said.clone().unwrap_or_default();
    let is_first = WANTED.set(wanted).is_ok();
    if let (true, Err(unknown)) = (is_first, said) {
        let signature = crate::ggml::version::SIGNATURE;
        let message = format!("{signature}{} has no effect: {unknown}\n", LEVEL.to_string_lossy());
        tell_ggml(functions, Level::Error, &message);
    }
    wanted
}

/// The function that a ggml prints its messages with by default, found out when there is first something to say.
fn own_logger(functions: &Functions) -> Option<usize> {
    let ggml = functions.ggml_log_internal as usize;
    let mut known = OWN_LOGGERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, own)) = known.iter().find(|(known, _)| *known == ggml) {
        return *own;
    }
    let own = ggmls_own_logger(functions);
    known.push((ggml, own));
    own
}

fn tell_ggml(functions: &Functions, level: Level, message: &str) {
    let message = c_string(message);
    // SAFETY: two strings that end in NUL, one of them for the one conversion in the format.
    unsafe { (functions.ggml_log_internal)(level.in_ggml(), c"%s".as_ptr(), message.as_ptr()) };
}

/// The same as C has it.
pub fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// The address of the function that gets ggml's messages.
fn current_logger(functions: &Functions) -> Option<usize> {
    let (mut callback, mut data): (ggml_log_callback, _) = (None, std::ptr::null_mut());
    // SAFETY: both can be written.
    unsafe { (functions.ggml_log_get?)(&raw mut callback, &raw mut data) };
    callback.map(|callback| callback as usize)
}

/// The address of the function that ggml's messages go to by default: ggml takes it up when it is given none.
fn ggmls_own_logger(functions: &Functions) -> Option<usize> {
    let (get, set) = (functions.ggml_log_get?, functions.ggml_log_set?);
    let (mut callback, mut data): (ggml_log_callback, _) = (None, std::ptr::null_mut());
    // SAFETY: both can be written.
    unsafe { get(&raw mut callback, &raw mut data) };
    // SAFETY: no function is ggml's own.
    unsafe { set(None, std::ptr::null_mut()) };
    let own = current_logger(functions);
    // SAFETY: what was there before.
    unsafe { set(callback, data) };
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_words() {
        assert_eq!(LEVELS.map(|(word, _)| word.parse()), LEVELS.map(|(_, level)| Ok(level)));
        assert_eq!("WARN".parse(), Ok(Level::Warn));
        assert!(Level::Error < Level::Warn && Level::Warn < Level::Info && Level::Info < Level::Debug);
    }

    #[test]
    fn unknown_word_is_named_beside_the_known_ones() {
        let unknown = "loud".parse::<Level>().expect_err("there is no such level");
        assert_eq!(unknown.to_string(), "there is no level \"loud\"; known are error, warn, info, debug, off");
    }
}
