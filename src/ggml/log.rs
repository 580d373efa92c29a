//! Messages of lastuse and where they go: to the log of the ggml that the current call of the thread belongs to, in whose abort
//! a panic ends.
//!
//! By default errors and warnings go to ggml's logger. With LASTUSE_LOG set, messages of that level or above go to the
//! standard error, and also to ggml's logger if the program has installed its own: ggml's default logger would only
//! print them twice.

use std::cell::Cell;
use std::ffi::{CString, c_int};
use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::ggml::bindings::ggml_log_callback;
use crate::ggml::environment::text_of;
use crate::ggml::linking::functions::Functions;
use crate::ggml::linking::loaded::Object;
use crate::ggml::linking::owner::defines_ggml;
use crate::settings::{Key, Level, parse_level};

impl Level {
    /// Returns ggml's number for the level.
    fn number(self) -> u32 {
        match self {
            Self::Debug => 1,
            Self::Info => 2,
            Self::Warn => 3,
            Self::Error => 4,
        }
    }
}

/// The level that LASTUSE_LOG sets, if it does.
static CONFIGURED: OnceLock<Option<Level>> = OnceLock::new();

/// By the address of a ggml's `ggml_log_internal`, that of its default logger; `None` if it is unknown.
static DEFAULT_LOGGERS: Mutex<Vec<(usize, Option<usize>)>> = Mutex::new(Vec::new());

/// Returns `true` if messages of this level are written anywhere.
pub fn is_log_enabled(functions: &Functions, level: Level) -> bool {
    level <= configured_level(functions).unwrap_or(Level::Warn)
}

/// Writes a message, which is a line including its newline, if its level is enabled.
pub fn log_message(functions: &Functions, level: Level, message: &str) {
    if !is_log_enabled(functions, level) {
        return;
    }
    if configured_level(functions).is_none() {
        return write_to_ggml(functions, level, message);
    }
    let line = format!("lastuse: {}", message.strip_prefix(crate::ggml::version::SIGNATURE).unwrap_or(message));
    // There is no other place for the message if the standard error is closed.
    let _ = std::io::stderr().write_all(line.as_bytes());
    let default = default_logger(functions);
    if default.is_some() && default != current_logger(functions) {
        write_to_ggml(functions, level, message);
    }
}

/// Returns the level that LASTUSE_LOG sets. An unknown word is reported once, when it is first read.
fn configured_level(functions: &Functions) -> Option<Level> {
    if let Some(&level) = CONFIGURED.get() {
        return level;
    }
    let parsed = parse_level(&text_of(Key::Log).unwrap_or_default());
    let level = parsed.clone().unwrap_or_default();
    let is_first = CONFIGURED.set(level).is_ok();
    if let (true, Err(unknown)) = (is_first, parsed) {
        let signature = crate::ggml::version::SIGNATURE;
        let message = format!("{signature}{} has no effect: {unknown}\n", Key::Log.variable().to_string_lossy());
        write_to_ggml(functions, Level::Error, &message);
    }
    level
}

/// Returns the address of a ggml's default logger, which is found when the first message is written.
fn default_logger(functions: &Functions) -> Option<usize> {
    let ggml = functions.ggml_log_internal as usize;
    let mut known = DEFAULT_LOGGERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, default)) = known.iter().find(|(known, _)| *known == ggml) {
        return *default;
    }
    let default = find_default_logger(functions);
    known.push((ggml, default));
    default
}

fn write_to_ggml(functions: &Functions, level: Level, message: &str) {
    let message = c_string(message);
    // SAFETY: two strings that end in NUL, one of them for the one conversion in the format.
    unsafe { (functions.ggml_log_internal)(level.number(), c"%s".as_ptr(), message.as_ptr()) };
}

/// Converts text to a C string; NULs in it become spaces.
pub fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// Returns the address of the function that ggml's messages go to now.
fn current_logger(functions: &Functions) -> Option<usize> {
    let (mut callback, mut data): (ggml_log_callback, _) = (None, std::ptr::null_mut());
    // SAFETY: both are writable.
    unsafe { (functions.ggml_log_get?)(&raw mut callback, &raw mut data) };
    callback.map(|callback| callback as usize)
}

/// Finds the address of ggml's default logger by resetting the logger for a moment.
fn find_default_logger(functions: &Functions) -> Option<usize> {
    let (get, set) = (functions.ggml_log_get?, functions.ggml_log_set?);
    let (mut callback, mut data): (ggml_log_callback, _) = (None, std::ptr::null_mut());
    // SAFETY: both are writable.
    unsafe { get(&raw mut callback, &raw mut data) };
    // SAFETY: null selects ggml's default logger.
    unsafe { set(None, std::ptr::null_mut()) };
    let default = current_logger(functions);
    // SAFETY: restores the logger.
    unsafe { set(callback, data) };
    default
}

thread_local! {
    static LATEST: Cell<Option<&'static Functions>> = const { Cell::new(None) };
}

/// Sets the ggml of the current call; `None` keeps the latest one.
#[inline]
pub fn set_current_ggml(functions: Option<&'static Functions>) {
    LATEST.set(functions.or(LATEST.get()));
}

/// Logs an error with the ggml of the current call, or any that is loaded.
pub fn log_error(message: &str) {
    if let Some(functions) = functions() {
        log_message(&functions, Level::Error, message);
    }
}

/// Ends the process through `ggml_abort`, so that the abort callback of the program receives the message.
pub fn abort(file: &str, line: u32, message: &str) -> ! {
    if let Some(functions) = functions() {
        let (file, message) = (c_string(file), c_string(message));
        let line = c_int::try_from(line).unwrap_or(0);
        // SAFETY: three strings that end in NUL, one of them for the one conversion in the format.
        unsafe { (functions.ggml_abort)(file.as_ptr(), line, c"%s".as_ptr(), message.as_ptr()) };
    }
    eprintln!("{file}:{line}: {message}");
    std::process::abort();
}

/// Returns the functions of the ggml of the current call, or of any that is loaded.
fn functions() -> Option<Functions> {
    LATEST.get().copied().or_else(|| Functions::linked().ok()).or_else(loaded)
}

fn loaded() -> Option<Functions> {
    let ggmls = Object::all().into_iter().filter(defines_ggml);
    ggmls.filter_map(|object| object.open()).find_map(|library| Functions::loaded(&library).ok())
}
