//! The message that `lastuse_last_error` returns: one for each thread.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fmt::Display;

use crate::ggml::log_error;

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
