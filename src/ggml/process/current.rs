//! The ggml that the current call of a thread belongs to: messages go to its log, and a panic ends in its abort.

use std::cell::Cell;
use std::ffi::c_int;

use crate::ggml::linking::functions::Functions;
use crate::ggml::linking::loaded::Object;
use crate::ggml::linking::owner::defines_ggml;
use crate::ggml::log::{Level, c_string, log_message};

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
