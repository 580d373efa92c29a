//! The functions of ggml that compute graphs: a graph gets its memory, and is not computed. Its results read as 0.

use std::collections::HashSet;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::answers::clear_results;
use crate::end::{End, end, watch};
use crate::is_active;
use crate::wrapped::of_ggml;

const STATUS_SUCCESS: c_int = 0;
const STATUS_ALLOC_FAILED: c_int = -2;

/// The most graphs in a row that may need no buffer which is not there yet. A program that computes more of them, such as one
/// that generates tokens, has all of its buffers.
const MOST_ALIKE: u64 = 256;

/// The graphs that were not computed, and how many of them since a buffer was allocated.
static GRAPHS: AtomicU64 = AtomicU64::new(0);
static ALIKE: AtomicU64 = AtomicU64::new(0);

/// Returns the number of graphs that were not computed.
pub fn graphs() -> u64 {
    GRAPHS.load(Ordering::Relaxed)
}

/// Notes that a buffer was allocated.
pub fn begin_alike() {
    ALIKE.store(0, Ordering::Relaxed);
}

/// Leaves out a graph that has its memory.
fn leave_out() -> c_int {
    watch();
    clear_results();
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
                const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name without NUL"),
                };
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
                const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name without NUL"),
                };
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
                leave_out()
            }
        )+
    };
}

wrap_scheduled! { ggml_backend_sched_graph_compute ggml_backend_sched_graph_compute_async }

/// Wraps functions of ggml's backends that compute a graph, or what a graph was prepared as.
macro_rules! wrap_direct {
    ($($name:ident)+) => {
        $(
            /// Wraps ggml's function.
            ///
            /// # Safety
            /// The requirements of ggml's function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(backend: *mut c_void, graph: *mut c_void) -> c_int {
                const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name without NUL"),
                };
                if is_active() {
                    return leave_out();
                }
                // SAFETY: its type in ggml-backend.h.
                let function: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int = unsafe { of_ggml(NAME) };
                // SAFETY: the caller's arguments, forwarded.
                unsafe { function(backend, graph) }
            }
        )+
    };
}

wrap_direct! { ggml_backend_graph_compute ggml_backend_graph_compute_async ggml_backend_graph_plan_compute }
