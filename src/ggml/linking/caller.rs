//! Finds the code that called lastuse.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;

use crate::ggml::linking::loaded::Object;

// The unwinder that Rust's standard library is linked with.
unsafe extern "C" {
    fn _Unwind_Backtrace(
        visit: unsafe extern "C" fn(frame: *mut c_void, search: *mut c_void) -> c_int,
        search: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

const GO_ON: c_int = 0;
const STOP: c_int = 5;

/// A search of the stack for the first frames outside of lastuse.
struct CallerSearch {
    /// The addresses of lastuse.
    own: Range<usize>,
    /// How many frames are searched for.
    most: usize,
    found: Vec<usize>,
}

/// Returns an address in the function that called lastuse from outside of its library; `None` if the stack cannot be
/// unwound. Unwinds only the frames of lastuse and one more.
pub fn caller() -> Option<usize> {
    callers(1).pop()
}

/// Returns addresses in the functions outside of its library that called lastuse, the innermost first, and at most `most`.
pub fn callers(most: usize) -> Vec<usize> {
    let Some(own) = Object::own() else { return Vec::new() };
    let mut search = CallerSearch { own: own.addresses(), most, found: Vec::new() };
    // SAFETY: `visit` matches the type of `search`, which outlives the call.
    unsafe { _Unwind_Backtrace(visit, ptr::from_mut(&mut search).cast()) };
    search.found
}

/// Collects frames that are not lastuse's, and stops at the last that is searched for.
unsafe extern "C" fn visit(frame: *mut c_void, search: *mut c_void) -> c_int {
    // SAFETY: `search` is that of `callers`, which nothing else touches meanwhile.
    let search = unsafe { &mut *search.cast::<CallerSearch>() };
    // SAFETY: the unwinder passes a frame.
    let address = unsafe { _Unwind_GetIP(frame) };
    if address == 0 {
        return STOP;
    }
    // The return address lies behind the end of a caller whose last call never returns.
    let call = address - 1;
    if !search.own.contains(&call) {
        search.found.push(call);
    }
    if search.found.len() < search.most { GO_ON } else { STOP }
}
