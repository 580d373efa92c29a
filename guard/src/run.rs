//! One run of a graph: from the call of the program to the end of the computation.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use crate::functions::{Functions, is_dumping, is_enabled};
use crate::turns::note_run;

/// ggml's status for success.
const STATUS_SUCCESS: c_int = 0;

thread_local! {
    /// The number of wrapped functions of backends and schedulers that this thread is in: ggml's functions call each other.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Counts a call of a wrapped function until dropped.
pub struct Call;

impl Call {
    /// Returns the call, and whether the program has made it, not ggml.
    pub fn enter() -> (Self, bool) {
        let is_outermost = !Self::is_inside();
        DEPTH.set(DEPTH.get() + 1);
        (Self, is_outermost)
    }

    /// Returns `true` in a call.
    pub fn is_inside() -> bool {
        DEPTH.get() > 0
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Computes a graph by `compute`. With guards its memory is checked before. If the environment selects tensors to dump, waits
/// for the end of the computation by `synchronize`, and writes them. Both only for a call of the program itself.
///
/// # Safety
/// `graph` and its tensors are live until the end of the computation, and no other thread uses them.
pub unsafe fn run(
    functions: &Functions,
    graph: *mut c_void,
    compute: impl FnOnce() -> c_int,
    synchronize: impl FnOnce(),
) -> c_int {
    let (_call, is_outermost) = Call::enter();
    note_run();
    if is_outermost && is_enabled() {
        // SAFETY: a live graph, which no other thread uses.
        unsafe { (functions.guard_check_graph)(graph) };
    }
    if !is_outermost || !is_dumping() {
        return compute();
    }
    // SAFETY: a live graph that no other thread uses, as the caller guarantees.
    unsafe { (functions.graph_dump_begin)(graph) };
    let status = compute();
    if status == STATUS_SUCCESS {
        synchronize();
        // SAFETY: a live graph that no other thread uses; the computation has ended. Errors are logged by lastuse.
        unsafe { (functions.graph_dump)(graph, null_mut()) };
    }
    status
}
