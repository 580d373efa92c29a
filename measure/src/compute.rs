//! The functions of ggml that compute graphs: a graph gets its memory, and is not computed. Its results read as 0.

use std::collections::HashSet;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::contents;
use crate::end::{End, end, watch};
use crate::wrapped::{c_name, of_ggml};
use crate::{ONE_COPY, is_active};

const STATUS_SUCCESS: c_int = 0;
const STATUS_ALLOC_FAILED: c_int = -2;

/// The most graphs in a row that may need no buffer which is not there yet. A program that computes more of them, such as one
/// that generates tokens, has all of its buffers.
const MOST_ALIKE: u64 = 256;

/// The graphs that were not computed, and how many of them since buffers had more bytes than ever before.
static GRAPHS: AtomicU64 = AtomicU64::new(0);
static ALIKE: AtomicU64 = AtomicU64::new(0);

/// Returns the number of graphs that were not computed.
pub fn graphs() -> u64 {
    GRAPHS.load(Ordering::Relaxed)
}

/// Notes that buffers have more bytes than ever before.
pub fn begin_alike() {
    ALIKE.store(0, Ordering::Relaxed);
}

/// Operations that compute nothing: their results are those of others.
const VIEWS: [&CStr; 5] = [c"NONE", c"VIEW", c"RESHAPE", c"PERMUTE", c"TRANSPOSE"];

/// Sets the results of a graph in stand-ins to 0.
///
/// # Safety
/// A live graph, whose nodes have memory.
unsafe fn clear_results(graph: *mut c_void) {
    // SAFETY: its type in ggml.h; so below.
    let count: unsafe extern "C" fn(*mut c_void) -> c_int = unsafe { of_ggml(c"ggml_graph_n_nodes") };
    // SAFETY: as above.
    let node: unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void = unsafe { of_ggml(c"ggml_graph_node") };
    // SAFETY: as above.
    let data: unsafe extern "C" fn(*mut c_void) -> *mut c_void = unsafe { of_ggml(c"ggml_get_data") };
    // SAFETY: as above.
    let nbytes: unsafe extern "C" fn(*mut c_void) -> usize = unsafe { of_ggml(c"ggml_nbytes") };
    // SAFETY: as above.
    let operation: unsafe extern "C" fn(*mut c_void) -> *const c_char = unsafe { of_ggml(c"ggml_op_desc") };
    // SAFETY: a live graph: see "# Safety".
    for at in 0..unsafe { count(graph) } {
        // SAFETY: a node of the graph.
        let node = unsafe { node(graph, at) };
        // SAFETY: a live tensor.
        let operation = unsafe { operation(node) };
        // SAFETY: the name of an operation ends in NUL.
        let is_view = VIEWS.contains(&unsafe { CStr::from_ptr(operation) });
        // SAFETY: a live tensor.
        let start = unsafe { data(node) }.expose_provenance();
        if !is_view && contents::contains(start) {
            // SAFETY: a live tensor.
            let end = start + unsafe { nbytes(node) };
            // SAFETY: bytes of a stand-in, which the program waits for.
            unsafe { contents::fill(&(start..end), 0) };
        }
    }
}

/// Leaves out a graph that has its memory.
///
/// # Safety
/// A live graph.
unsafe fn leave_out(graph: *mut c_void) -> c_int {
    // SAFETY: as the caller guarantees.
    unsafe { clear_results(graph) };
    note_left_out()
}

/// Notes that a graph was left out.
fn note_left_out() -> c_int {
    watch();
    GRAPHS.fetch_add(1, Ordering::Relaxed);
    if ALIKE.fetch_add(1, Ordering::Relaxed) >= MOST_ALIKE {
        end(End::Complete, &format!("{MOST_ALIKE} graphs in a row needed no buffer that was not there"));
    }
    STATUS_SUCCESS
}

/// The schedulers whose graph has its memory, by address.
static ALLOCATED: Mutex<Option<HashSet<usize>>> = Mutex::new(None);

/// Notes whether a graph of a scheduler has its memory. Returns whether one had before.
fn set_allocated(scheduler: *mut c_void, is_allocated: bool) -> bool {
    let mut all = ALLOCATED.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_with(HashSet::new);
    if is_allocated { !all.insert(scheduler.addr()) } else { all.remove(&scheduler.addr()) }
}

/// Wraps ggml's function.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_alloc_graph(scheduler: *mut c_void, graph: *mut c_void) -> bool {
    // SAFETY: its type in ggml-backend.h.
    let function: unsafe extern "C" fn(*mut c_void, *mut c_void) -> bool =
        unsafe { of_ggml(c"ggml_backend_sched_alloc_graph") };
    // SAFETY: the caller's arguments, forwarded.
    let is_allocated = unsafe { function(scheduler, graph) };
    set_allocated(scheduler, is_allocated);
    is_allocated
}

/// Wraps ggml's function: makes no copies for a pipeline if they are not wanted. Earlier versions of ggml do not read the last
/// argument, so it may be any number.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_new(
    backends: *mut c_void,
    types: *mut c_void,
    count: c_int,
    graph_size: usize,
    is_parallel: bool,
    offloads: u8,
) -> *mut c_void {
    // SAFETY: its type in ggml-backend.h.
    let function: unsafe extern "C" fn(*mut c_void, *mut c_void, c_int, usize, bool, u8) -> *mut c_void =
        unsafe { of_ggml(c"ggml_backend_sched_new") };
    // SAFETY: the name ends in NUL.
    let has_one_copy = is_active() && !unsafe { libc::getenv(ONE_COPY.as_ptr()) }.is_null();
    // SAFETY: the caller's arguments, but for copies.
    unsafe { function(backends, types, count, graph_size, is_parallel && !has_one_copy, offloads) }
}

/// Wraps functions of ggml's schedulers: none of their graphs has memory afterwards.
macro_rules! wrap_reset {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)+) => {
        $(
            /// Wraps ggml's function.
            ///
            /// # Safety
            /// The requirements of ggml's function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(scheduler: *mut c_void $(, $argument: $type)*) -> $result {
                const NAME: &CStr = c_name(concat!(stringify!($name), "\0"));
                set_allocated(scheduler, false);
                // SAFETY: its type in ggml-backend.h.
                let function: unsafe extern "C" fn(*mut c_void $(, $type)*) -> $result = unsafe { of_ggml(NAME) };
                // SAFETY: the caller's arguments, forwarded.
                unsafe { function(scheduler $(, $argument)*) }
            }
        )+
    };
}

wrap_reset! {
    ggml_backend_sched_reset() -> ();
    ggml_backend_sched_free() -> ();
    ggml_backend_sched_reserve(graph: *mut c_void) -> bool;
    ggml_backend_sched_reserve_size(graph: *mut c_void, sizes: *mut usize) -> ();
}

/// Wraps functions of ggml's schedulers that compute a graph, and give it memory if it has none.
macro_rules! wrap_scheduled {
    ($($name:ident)+) => {
        $(
            /// Wraps ggml's function.
            ///
            /// # Safety
            /// The requirements of ggml's function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(scheduler: *mut c_void, graph: *mut c_void) -> c_int {
                const NAME: &CStr = c_name(concat!(stringify!($name), "\0"));
                if !is_active() {
                    // SAFETY: its type in ggml-backend.h.
                    let function: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int = unsafe { of_ggml(NAME) };
                    // SAFETY: the caller's arguments, forwarded.
                    return unsafe { function(scheduler, graph) };
                }
                let has_memory = set_allocated(scheduler, true);
                // SAFETY: a live scheduler and a live graph, as ggml's function requires.
                if !has_memory && !unsafe { ggml_backend_sched_alloc_graph(scheduler, graph) } {
                    return STATUS_ALLOC_FAILED;
                }
                // SAFETY: a live graph, as ggml's function requires.
                unsafe { leave_out(graph) }
            }
        )+
    };
}

wrap_scheduled! { ggml_backend_sched_graph_compute ggml_backend_sched_graph_compute_async }

/// Wraps functions of ggml's backends that compute a graph.
macro_rules! wrap_direct {
    ($($name:ident)+) => {
        $(
            /// Wraps ggml's function.
            ///
            /// # Safety
            /// The requirements of ggml's function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(backend: *mut c_void, graph: *mut c_void) -> c_int {
                const NAME: &CStr = c_name(concat!(stringify!($name), "\0"));
                if is_active() {
                    // SAFETY: a live graph, as ggml's function requires.
                    return unsafe { leave_out(graph) };
                }
                // SAFETY: its type in ggml-backend.h.
                let function: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int = unsafe { of_ggml(NAME) };
                // SAFETY: the caller's arguments, forwarded.
                unsafe { function(backend, graph) }
            }
        )+
    };
}

wrap_direct! { ggml_backend_graph_compute ggml_backend_graph_compute_async }

/// Wraps ggml's function.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_graph_plan_compute(backend: *mut c_void, plan: *mut c_void) -> c_int {
    if is_active() {
        return note_left_out();
    }
    // SAFETY: its type in ggml-backend.h.
    let function: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int =
        unsafe { of_ggml(c"ggml_backend_graph_plan_compute") };
    // SAFETY: the caller's arguments, forwarded.
    unsafe { function(backend, plan) }
}
