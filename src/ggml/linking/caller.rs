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

/// A search of the stack for the first frame outside of lastuse.
struct CallerSearch {
    /// The addresses of lastuse.
    own: Range<usize>,
    found: Option<usize>,
}

/// Returns an address in the function that called lastuse from outside of its library; `None` if the stack cannot be
/// unwound. Unwinds only the frames of lastuse and one more.
pub fn caller() -> Option<usize> {
    let mut search = CallerSearch { own: Object::own()?.addresses(), found: None };
    // SAFETY: `visit` matches the type of `search`, which outlives the call.
    unsafe { _Unwind_Backtrace(visit, ptr::from_mut(&mut search).cast()) };
    search.found
}

/// Stops at the first frame that is not lastuse's.
unsafe extern "C" fn visit(frame: *mut c_void, search: *mut c_void) -> c_int {
    // SAFETY: `search` is that of `caller`, which nothing else touches meanwhile.
    let search = unsafe { &mut *search.cast::<CallerSearch>() };
    // SAFETY: the unwinder passes a frame.
    let address = unsafe { _Unwind_GetIP(frame) };
    if address == 0 {
        return STOP;
    }
    // The return address lies behind the end of a caller whose last call never returns.
    let call = address - 1;
    if search.own.contains(&call) {
        return GO_ON;
    }
    search.found = Some(call);
    STOP
}
