//! What ends the process in `ggml_abort`: a panic, an argument that is NULL, memory that is not as it must be.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use crate::ggml::{Violation, abort, log_error};

/// Runs the body of a C function. A panic inside is a defect of lastuse: it ends in `ggml_abort` with its message,
/// since a plan that is half done must not be used, and unwinding into C is undefined.
pub(super) fn abort_on_panic<T>(body: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => value,
        Err(payload) => abort(file!(), line!(), &format!("lastuse: internal error: {}", message(&*payload))),
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// Returns `pointer`, which must not be NULL; aborts with the names of the function and the argument otherwise.
pub(super) fn required<T>(pointer: *mut T, function: &str, argument: &str) -> NonNull<T> {
    NonNull::new(pointer).unwrap_or_else(|| abort(file!(), line!(), &format!("{function}: {argument} is NULL")))
}

/// Logs `violation` and aborts: nothing computed from memory that is not as it must be would be right.
pub(super) fn abort_on_violation(violation: &Violation) -> ! {
    let message = format!("lastuse: {violation}");
    log_error(&format!("{message}\n"));
    abort(file!(), line!(), &message)
}
