//! The border between C and Rust: no panic crosses it, and no null gets past it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use crate::ggml::{Violation, abort, log_error};

/// Runs `call`. A panic inside is a defect of lastuse: it ends in `ggml_abort` with its message, since a plan that is
/// half done must not be used, and unwinding into C is undefined.
pub fn guard<T>(call: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(value) => value,
        Err(payload) => abort(file!(), line!(), &format!("lastuse: internal error: {}", message(&*payload))),
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// Ends the process where memory is not what it should be: nothing computed from it would be right. ggml's log and its abort
/// callback, or the standard error, tell why.
pub fn end_on(violation: &Violation) -> ! {
    let message = format!("lastuse: {violation}");
    log_error(&format!("{message}\n"));
    abort(file!(), line!(), &message)
}

/// The pointer, which must not be null; aborts with the name of the argument otherwise.
pub fn required<T>(pointer: *mut T, function: &str, argument: &str) -> NonNull<T> {
    NonNull::new(pointer).unwrap_or_else(|| abort(file!(), line!(), &format!("{function}: {argument} is NULL")))
}
