//! What the calls of each thread are about: the ggml whose log and whose abort its messages go to, and the one that a call was
//! handed on to.

use std::cell::Cell;

use super::functions::Functions;
use super::loaded::Object;
use super::log::{Level, say};
use super::owner::defines_ggml;
use super::process::{Ggml, decided_ggmls};

thread_local! {
    static LATEST: Cell<Option<&'static Functions>> = const { Cell::new(None) };
    static HANDED_TO: Cell<Option<&'static Ggml>> = const { Cell::new(None) };
}

/// The current call is about this ggml.
#[inline]
pub fn now_for(functions: Option<&'static Functions>) {
    LATEST.set(functions.or(LATEST.get()));
}

/// Calls a function of this ggml's own allocator, which may call others of its functions: those come here first.
pub fn hand_to<T>(ggml: &'static Ggml, call: impl FnOnce() -> T) -> T {
    let before = HANDED_TO.replace(Some(ggml));
    let result = call();
    HANDED_TO.set(before);
    result
}

/// The ggml whose own allocator is at work in this thread, called by lastuse.
pub fn handed_to() -> Option<&'static Ggml> {
    HANDED_TO.get()
}

/// Tells ggml's log that something cannot be done: that of the ggml which the call is about, or any that is there.
pub fn log_error(message: &str) {
    if let Some(functions) = functions() {
        say(&functions, Level::Error, message);
    }
}

/// The functions of the ggml that the call is about, or of any that is there.
pub fn functions() -> Option<Functions> {
    let decided = || decided_ggmls().into_iter().find_map(|ggml| ggml.functions);
    LATEST.get().copied().or_else(decided).or_else(|| Functions::linked().ok()).or_else(loaded)
}

fn loaded() -> Option<Functions> {
    let ggmls = Object::all().into_iter().filter(defines_ggml);
    ggmls.filter_map(|object| object.open()).find_map(|library| Functions::loaded(&library).ok())
}
