//! Finds the code that called lastuse.

use crate::ggml::linking::loaded::Object;
use crate::ggml::platform::backtrace;

/// Returns an address in the function that called lastuse from outside of its library; `None` if the stack cannot be
/// unwound. Unwinds only the frames of lastuse and one more.
pub fn caller() -> Option<usize> {
    callers(1).pop()
}

/// Returns addresses in the functions outside of its library that called lastuse, the innermost first, and at most `most`.
pub fn callers(most: usize) -> Vec<usize> {
    let Some(own) = Object::own() else { return Vec::new() };
    let mut found = Vec::new();
    backtrace(|address| {
        // The return address lies behind the end of a caller whose last call never returns.
        let call = address - 1;
        if !own.addresses().contains(&call) {
            found.push(call);
        }
        found.len() < most
    });
    found
}
