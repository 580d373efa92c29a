//! The functions of ggml that this library wraps, and those of lastuse that it calls.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{OnceLock, PoisonError, RwLock};

use crate::Callback;
use crate::search::find_wrapped;
use crate::wrapped::{of_ggml, of_lastuse};

/// The environment variables, which lastuse reads too.
const VERIFY: &CStr = c"LASTUSE_VERIFY";
const DUMP: &CStr = c"LASTUSE_DUMP";

/// `struct lastuse_guard_params` of lastuse.h.
#[repr(C)]
pub struct Params {
    pub struct_size: usize,
    pub words: *const c_char,
    pub next: Callback,
    pub next_user_data: *mut c_void,
}

/// Pointers to the functions.
pub struct Functions {
    pub set_eval_callback: unsafe extern "C" fn(*mut c_void, Callback, *mut c_void),
    pub sched_graph_compute: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
    pub sched_graph_compute_async: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
    pub sched_synchronize: unsafe extern "C" fn(*mut c_void),
    pub sched_free: unsafe extern "C" fn(*mut c_void),
    pub graph_compute: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
    pub graph_compute_async: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
    pub synchronize: unsafe extern "C" fn(*mut c_void),
    pub graph_dump_begin: unsafe extern "C" fn(*mut c_void) -> bool,
    pub graph_dump: unsafe extern "C" fn(*mut c_void, *mut usize) -> bool,
    pub guard_new: unsafe extern "C" fn(*const Params) -> *mut c_void,
    pub guard_eval: unsafe extern "C" fn(*mut c_void, bool, *mut c_void) -> bool,
    pub guard_free: unsafe extern "C" fn(*mut c_void),
    pub guard_check_graph: unsafe extern "C" fn(*mut c_void),
}

impl Functions {
    /// Returns the functions of the ggml that the caller of this library is bound to; aborts the process when one is
    /// missing.
    pub fn of_caller() -> &'static Self {
        static FOUND: RwLock<Vec<(usize, &Functions)>> = RwLock::new(Vec::new());
        let compute = find_wrapped(c"ggml_backend_sched_graph_compute").addr();
        let known = FOUND.read().unwrap_or_else(PoisonError::into_inner).iter().find(|(of, _)| *of == compute).copied();
        known.map_or_else(
            || {
                let found: &Self = Box::leak(Box::new(Self::find()));
                FOUND.write().unwrap_or_else(PoisonError::into_inner).push((compute, found));
                found
            },
            |(_, known)| known,
        )
    }

    fn find() -> Self {
        Self {
            // SAFETY: its type in ggml-backend.h or lastuse.h.
            set_eval_callback: unsafe { of_ggml(c"ggml_backend_sched_set_eval_callback") },
            // SAFETY: its type in ggml-backend.h or lastuse.h.
            sched_graph_compute: unsafe { of_ggml(c"ggml_backend_sched_graph_compute") },
            // SAFETY: its type in ggml-backend.h or lastuse.h.
            sched_graph_compute_async: unsafe { of_ggml(c"ggml_backend_sched_graph_compute_async") },
            // SAFETY: its type in ggml-backend.h or lastuse.h.
            sched_synchronize: unsafe { of_ggml(c"ggml_backend_sched_synchronize") },
            // SAFETY: its type in ggml-backend.h or lastuse.h.
            sched_free: unsafe { of_ggml(c"ggml_backend_sched_free") },
            // SAFETY: its type in ggml-backend.h or lastuse.h.
            graph_compute: unsafe { of_ggml(c"ggml_backend_graph_compute") },
            // SAFETY: its type in ggml-backend.h or lastuse.h.
            graph_compute_async: unsafe { of_ggml(c"ggml_backend_graph_compute_async") },
            // SAFETY: its type in ggml-backend.h or lastuse.h.
            synchronize: unsafe { of_ggml(c"ggml_backend_synchronize") },
            // SAFETY: its type in ggml-backend.h or lastuse.h.
            graph_dump_begin: unsafe { of_lastuse(c"lastuse_graph_dump_begin") },
            // SAFETY: its type in ggml-backend.h or lastuse.h.
            graph_dump: unsafe { of_lastuse(c"lastuse_graph_dump") },
            // SAFETY: its type in ggml-backend.h or lastuse.h.
            guard_new: unsafe { of_lastuse(c"lastuse_guard_new") },
            // SAFETY: its type in ggml-backend.h or lastuse.h.
            guard_eval: unsafe { of_lastuse(c"lastuse_guard_eval") },
            // SAFETY: its type in ggml-backend.h or lastuse.h.
            guard_free: unsafe { of_lastuse(c"lastuse_guard_free") },
            // SAFETY: its type in ggml-backend.h or lastuse.h.
            guard_check_graph: unsafe { of_lastuse(c"lastuse_guard_check_graph") },
        }
    }
}

/// Returns the value of `LASTUSE_VERIFY`, NULL when it is not set. It is never freed.
pub fn verify_words() -> *const c_char {
    // SAFETY: the name ends in NUL.
    unsafe { libc::getenv(VERIFY.as_ptr()) }
}

/// Returns whether the environment enables guards. Errors in its value are left to lastuse, which reports them.
pub fn is_enabled() -> bool {
    static ENABLED: OnceLock<bool> = OnceLock::new();
    *ENABLED.get_or_init(|| {
        let words = verify_words();
        if words.is_null() {
            return false;
        }
        // SAFETY: a string of the environment.
        let text = unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned();
        let last = |words: &[&str]| {
            text.split(",").enumerate().filter(|(_, word)| words.contains(&word.trim())).map(|(at, _)| at).last()
        };
        last(&["memory", "weights"]) > last(&["off", "0"])
    })
}

/// Returns whether the environment selects tensors to dump. Errors in its value are left to lastuse, which reports them.
pub fn is_dumping() -> bool {
    static DUMPING: OnceLock<bool> = OnceLock::new();
    *DUMPING.get_or_init(|| {
        // SAFETY: the name ends in NUL.
        let names = unsafe { libc::getenv(DUMP.as_ptr()) };
        // SAFETY: not null: a string of the environment.
        !names.is_null() && !unsafe { CStr::from_ptr(names) }.is_empty()
    })
}
