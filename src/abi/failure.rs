//! How a call ends that cannot do what it is for: in the last error of the thread, or, where ggml aborts too, in
//! `ggml_abort`.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::ggml::{Violation, abort, log_error};

thread_local! {
    static LAST_ERROR: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Sets the last error of this thread to the name of the function and `why`, and logs it.
pub(super) fn fail(function: &str, why: &dyn Display) {
    log_error(&format!("{function}: {why}\n"));
    set_last_error(function, why);
}

/// Sets the last error of this thread to the name of the function and `why`, without a line in ggml's log.
pub(super) fn set_last_error(function: &str, why: &dyn Display) {
    let message = format!("{function}: {why}");
    LAST_ERROR.set(CString::new(message.replace('\0', " ")).ok());
}

/// Returns the last error of this thread, valid until the next one; before the first, a static empty string.
pub(super) fn last_error() -> *const c_char {
    LAST_ERROR.with_borrow(|message| message.as_deref().unwrap_or(c"").as_ptr())
}

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

/// Logs `violation` and aborts: nothing computed from memory that is not as it must be would be right.
pub(super) fn abort_on_violation(violation: &Violation) -> ! {
    let message = format!("lastuse: {violation}");
    log_error(&format!("{message}\n"));
    abort(file!(), line!(), &message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_share_one_empty_string_before_an_error() {
        let here = last_error();
        let there = std::thread::spawn(|| last_error().addr()).join().expect("no panic");
        assert_eq!(there, here.addr(), "a thread's own string would be freed with it");
    }
}
