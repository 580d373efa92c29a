//! Why a call of lastuse's own was refused: told by `lastuse_last_error`, and to ggml's logger.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fmt::Display;

use crate::ggml::{Ggml, NoGgml, Runtime, log_error};

thread_local! {
    static LAST: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Remembers why `function` refuses, and tells ggml's logger.
pub fn refuse(function: &str, why: &dyn Display) {
    log_error(&format!("{function}: {why}\n"));
    note(function, why);
}

/// Remembers why `function` refuses, without a line in ggml's log.
pub fn note(function: &str, why: &dyn Display) {
    let message = format!("{function}: {why}");
    LAST.set(CString::new(message.replace('\0', " ")).ok());
}

/// The ggml that a call is about; `None`, after saying so, when nothing tells which, or lastuse does not know its layout.
pub fn ggml_for(function: &str, found: Result<&'static Ggml, NoGgml>) -> Option<&'static Runtime> {
    let found = found.inspect_err(|why| refuse(function, why)).ok()?;
    let known = found.known();
    if known.is_none() {
        refuse(function, &"this ggml has a layout that lastuse does not know");
    }
    known
}

/// Why the latest refused call of this thread was refused; before the first an empty string that is never freed.
pub fn last_refusal() -> *const c_char {
    LAST.with_borrow(|message| message.as_deref().unwrap_or(c"").as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_share_one_empty_string_before_a_refusal() {
        let here = last_refusal();
        let there = std::thread::spawn(|| last_refusal().addr()).join().expect("no panic");
        assert_eq!(there, here.addr(), "a thread's own string would be freed with it");
    }
}
