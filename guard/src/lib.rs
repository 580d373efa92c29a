//! A library to preload after `liblastuse.so`, for programs that know nothing of lastuse: it wraps the functions of ggml
//! that compute graphs, those that allocate and free buffers, and those that read and write tensors. With
//! `LASTUSE_VERIFY=memory` every scheduler runs its graphs under a guard of lastuse, and memory that was freed is not used;
//! with `LASTUSE_DUMP` the values of tensors are written to files after each run, with `LASTUSE_ACCOUNTING` lastuse is told of
//! each buffer, with `LASTUSE_ARENA` of the turns of schedulers that share memory, and with `LASTUSE_BUDGET`,
//! `LASTUSE_RECOMPUTE` or `LASTUSE_REORDER` it changes graphs before schedulers get them.
//!
//! It is separate from liblastuse because it wraps functions of ggml's schedulers and backends, which other programs
//! should not depend on. Without these variables it forwards every call and does nothing else.

/// How lastuse finds the objects of the process and the code that calls it.
#[allow(dead_code, unused_imports, unused_macros, reason = "this library needs only some of it")]
#[path = "../../src/ggml"]
mod ggml {
    pub mod platform;
    pub mod linking {
        pub mod caller;
        pub mod loaded;
    }
}
mod search;
mod wrapped;
mod functions;
mod run;
mod passes;
mod turns;
mod buffers;
mod tensors;

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use functions::{Functions, Params, is_enabled, verify_words};
use passes::{allocate_to_compute, forget, note_callback};
use run::run;
use turns::{begin_turn, end_turn};

/// The evaluation callback that ggml calls for each node: the tensor, whether this is the call before its computation,
/// and the user data.
pub type Callback = Option<unsafe extern "C" fn(*mut c_void, bool, *mut c_void) -> bool>;

/// ggml's status for a graph without memory.
const STATUS_ALLOC_FAILED: c_int = -2;

/// The state of one scheduler.
#[derive(Default)]
struct Guarded {
    /// The callback of the program.
    callback: Callback,
    /// The address of the user data of that callback.
    user_data: usize,
    /// The address of the guard, once a graph was computed.
    guard: Option<usize>,
}

static SCHEDULERS: Mutex<Option<HashMap<usize, Guarded>>> = Mutex::new(None);

/// Calls `act` with the state of a scheduler.
fn with_scheduler<T>(scheduler: *mut c_void, act: impl FnOnce(&mut Guarded) -> T) -> T {
    let mut all: MutexGuard<'_, _> = SCHEDULERS.lock().unwrap_or_else(PoisonError::into_inner);
    act(all.get_or_insert_with(HashMap::new).entry(scheduler.addr()).or_default())
}

impl Guarded {
    /// Frees the guard, which no scheduler uses any more.
    fn drop_guard(&mut self, functions: &Functions) {
        if let Some(guard) = self.guard.take() {
            // SAFETY: made by `lastuse_guard_new`, and freed once.
            unsafe { (functions.guard_free)(ptr::with_exposed_provenance_mut(guard)) };
        }
    }

    /// Creates a guard that calls the program's callback, and sets it as the callback of the scheduler.
    ///
    /// # Safety
    /// `scheduler` is valid, and the program's callback may be called.
    unsafe fn make_guard(&mut self, functions: &Functions, scheduler: *mut c_void) {
        let words = verify_words();
        let params = Params {
            struct_size: size_of::<Params>(),
            words,
            next: self.callback,
            next_user_data: ptr::with_exposed_provenance_mut(self.user_data),
        };
        // SAFETY: the struct that lastuse.h declares.
        let guard = unsafe { (functions.guard_new)(&raw const params) };
        if !guard.is_null() {
            self.guard = Some(guard.expose_provenance());
            // SAFETY: a valid scheduler; the guard is freed after the scheduler has another callback, or after the
            // scheduler.
            unsafe { (functions.set_eval_callback)(scheduler, Some(functions.guard_eval), guard) };
        }
    }
}

/// Wraps ggml's function: keeps the program's callback, which the guard calls.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_set_eval_callback(
    scheduler: *mut c_void,
    callback: Callback,
    user_data: *mut c_void,
) {
    let functions = Functions::of_caller();
    note_callback(scheduler, callback.is_some());
    let is_guarded = is_enabled()
        && with_scheduler(scheduler, |state| {
            let same = |one: Callback, other: Callback| one.map(|it| it as usize) == other.map(|it| it as usize);
            if state.guard.is_some() && same(state.callback, callback) && state.user_data == user_data.addr() {
                return true;
            }
            state.drop_guard(functions);
            (state.callback, state.user_data) = (callback, user_data.expose_provenance());
            false
        });
    if !is_guarded {
        // SAFETY: the caller's arguments, forwarded.
        unsafe { (functions.set_eval_callback)(scheduler, callback, user_data) };
    }
}

/// Creates the guard of a scheduler, if guards are enabled and it has none.
///
/// # Safety
/// `scheduler` is valid, and the program's callback may be called.
unsafe fn guard_scheduler(functions: &Functions, scheduler: *mut c_void) {
    if is_enabled() {
        with_scheduler(scheduler, |state| {
            if state.guard.is_none() {
                // SAFETY: a valid scheduler whose callback may be called, as the caller guarantees.
                unsafe { state.make_guard(functions, scheduler) };
            }
        });
    }
}

/// Wraps ggml's function: creates a guard before the first graph of the scheduler, and dumps tensors after each.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_graph_compute(scheduler: *mut c_void, graph: *mut c_void) -> c_int {
    let functions = Functions::of_caller();
    // SAFETY: a valid scheduler, as ggml's function requires, which calls its callback too.
    unsafe { guard_scheduler(functions, scheduler) };
    // SAFETY: as above.
    unsafe { begin_turn(scheduler) };
    // SAFETY: live, and used by no other thread, as ggml's function requires.
    if !unsafe { allocate_to_compute(scheduler, graph) } {
        return STATUS_ALLOC_FAILED;
    }
    // SAFETY: the caller's arguments, forwarded.
    let compute = || unsafe { (functions.sched_graph_compute)(scheduler, graph) };
    // SAFETY: `graph` is live and used by no other thread during the computation, as ggml's function requires.
    unsafe { run(functions, graph, compute, || ()) }
}

/// Wraps ggml's function: creates a guard before the first graph of the scheduler, and dumps tensors after each, for
/// which it waits until the graph is computed.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_graph_compute_async(scheduler: *mut c_void, graph: *mut c_void) -> c_int {
    let functions = Functions::of_caller();
    // SAFETY: a valid scheduler, as ggml's function requires, which calls its callback too.
    unsafe { guard_scheduler(functions, scheduler) };
    // SAFETY: as above.
    unsafe { begin_turn(scheduler) };
    // SAFETY: live, and used by no other thread, as ggml's function requires.
    if !unsafe { allocate_to_compute(scheduler, graph) } {
        return STATUS_ALLOC_FAILED;
    }
    // SAFETY: the caller's arguments, forwarded.
    let compute = || unsafe { (functions.sched_graph_compute_async)(scheduler, graph) };
    // SAFETY: a valid scheduler.
    let synchronize = || unsafe { (functions.sched_synchronize)(scheduler) };
    // SAFETY: `graph` is live and used by no other thread until it is computed, as ggml's function requires.
    unsafe { run(functions, graph, compute, synchronize) }
}

/// Wraps ggml's function: dumps tensors after the graph was computed.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_graph_compute(backend: *mut c_void, graph: *mut c_void) -> c_int {
    let functions = Functions::of_caller();
    // SAFETY: the caller's arguments, forwarded.
    let compute = || unsafe { (functions.graph_compute)(backend, graph) };
    // SAFETY: `graph` is live and used by no other thread during the computation, as ggml's function requires.
    unsafe { run(functions, graph, compute, || ()) }
}

/// Wraps ggml's function: dumps tensors after the graph was computed, for which it waits.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_graph_compute_async(backend: *mut c_void, graph: *mut c_void) -> c_int {
    let functions = Functions::of_caller();
    // SAFETY: the caller's arguments, forwarded.
    let compute = || unsafe { (functions.graph_compute_async)(backend, graph) };
    // SAFETY: a valid backend.
    let synchronize = || unsafe { (functions.synchronize)(backend) };
    // SAFETY: `graph` is live and used by no other thread until it is computed, as ggml's function requires.
    unsafe { run(functions, graph, compute, synchronize) }
}

/// Wraps ggml's function: ends the turn of the scheduler before, and frees the guard after it.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_free(scheduler: *mut c_void) {
    let functions = Functions::of_caller();
    // SAFETY: a scheduler that no other thread uses, as ggml's function requires.
    unsafe { end_turn(scheduler) };
    forget(scheduler);
    // SAFETY: the caller's arguments, forwarded.
    unsafe { (functions.sched_free)(scheduler) };
    if is_enabled() {
        with_scheduler(scheduler, |state| {
            state.drop_guard(functions);
            *state = Guarded::default();
        });
    }
}
