//! To be preloaded behind `liblastuse.so`: with `LASTUSE_VERIFY=memory` every scheduler of the program runs its graphs under
//! a guard of lastuse, although the program knows nothing of it.
//!
//! A library of its own, since it stands in front of functions of ggml's scheduler, which liblastuse leaves alone: programs
//! that do not ask for this never meet it. Without that variable every call is handed on, and nothing else is done.

mod functions;

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use functions::{Functions, Params, is_wanted, verify_words};

/// What ggml calls for each node: the tensor, whether it is asked before or told after, and the user data.
pub type Callback = Option<unsafe extern "C" fn(*mut c_void, bool, *mut c_void) -> bool>;

/// What a scheduler has.
#[derive(Default)]
struct Guarded {
    /// The callback of the program.
    callback: Callback,
    /// What that is called with: an address.
    user_data: usize,
    /// The guard, once a graph was computed: an address.
    guard: Option<usize>,
}

static SCHEDULERS: Mutex<Option<HashMap<usize, Guarded>>> = Mutex::new(None);

/// Everything known of a scheduler.
fn with_scheduler<T>(scheduler: *mut c_void, act: impl FnOnce(&mut Guarded) -> T) -> T {
    let mut all: MutexGuard<'_, _> = SCHEDULERS.lock().unwrap_or_else(PoisonError::into_inner);
    act(all.get_or_insert_with(HashMap::new).entry(scheduler.addr()).or_default())
}

impl Guarded {
    /// Frees the guard, which no scheduler uses any more.
    fn drop_guard(&mut self, functions: &Functions) {
        if let Some(guard) = self.guard.take() {
            // SAFETY: made by `lastuse_guard_new`, and given back once.
            unsafe { (functions.guard_free)(ptr::with_exposed_provenance_mut(guard)) };
        }
    }

    /// Makes a guard that calls the program's callback, and gives it to the scheduler.
    ///
    /// # Safety
    /// `scheduler` is alive, and the program's callback may be called.
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
            // SAFETY: a live scheduler; the guard lives until the scheduler has another callback, or is gone.
            unsafe { (functions.set_eval_callback)(scheduler, Some(functions.guard_eval), guard) };
        }
    }
}

/// ggml's function: the program's callback is called by the guard.
///
/// # Safety
/// As ggml's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_set_eval_callback(
    scheduler: *mut c_void,
    callback: Callback,
    user_data: *mut c_void,
) {
    let functions = Functions::get();
    let is_guarded = is_wanted()
        && with_scheduler(scheduler, |known| {
            let same = |one: Callback, other: Callback| one.map(|it| it as usize) == other.map(|it| it as usize);
            if known.guard.is_some() && same(known.callback, callback) && known.user_data == user_data.addr() {
                return true;
            }
            known.drop_guard(functions);
            (known.callback, known.user_data) = (callback, user_data.expose_provenance());
            false
        });
    if !is_guarded {
        // SAFETY: the caller's arguments, handed on.
        unsafe { (functions.set_eval_callback)(scheduler, callback, user_data) };
    }
}

/// ggml's function: the scheduler has a guard from its first graph on.
///
/// # Safety
/// As ggml's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_graph_compute_async(scheduler: *mut c_void, graph: *mut c_void) -> c_int {
    let functions = Functions::get();
    if is_wanted() {
        with_scheduler(scheduler, |known| {
            if known.guard.is_none() {
                // SAFETY: the caller's promise.
                unsafe { known.make_guard(functions, scheduler) };
            }
        });
    }
    // SAFETY: the caller's arguments, handed on.
    unsafe { (functions.graph_compute_async)(scheduler, graph) }
}

/// ggml's function: the guard goes with the scheduler.
///
/// # Safety
/// As ggml's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_free(scheduler: *mut c_void) {
    let functions = Functions::get();
    // SAFETY: the caller's arguments, handed on.
    unsafe { (functions.sched_free)(scheduler) };
    if is_wanted() {
        with_scheduler(scheduler, |known| {
            known.drop_guard(functions);
            *known = Guarded::default();
        });
    }
}
