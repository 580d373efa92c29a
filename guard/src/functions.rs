//! The functions of ggml that this library wraps, and those of lastuse that it calls.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::Callback;

/// The environment variable, which lastuse reads too.
const VERIFY: &CStr = c"LASTUSE_VERIFY";

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
    pub graph_compute_async: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
    pub sched_free: unsafe extern "C" fn(*mut c_void),
    pub guard_new: unsafe extern "C" fn(*const Params) -> *mut c_void,
    pub guard_eval: unsafe extern "C" fn(*mut c_void, bool, *mut c_void) -> bool,
    pub guard_free: unsafe extern "C" fn(*mut c_void),
}

/// Finds a function: after this library in the search order of the linker (`RTLD_NEXT`), or anywhere.
///
/// # Safety
/// `F` is the type of the function of that name: a pointer to a function.
unsafe fn find<F: Copy>(place: *mut c_void, name: &CStr) -> F {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>(), "a pointer") };
    // SAFETY: the name ends in NUL.
    let address = unsafe { libc::dlsym(place, name.as_ptr()) };
    if address.is_null() {
        missing(name);
    }
    // SAFETY: not null, of the same size, and the caller's promise.
    unsafe { std::mem::transmute_copy(&address) }
}

impl Functions {
    /// Finds the functions once; aborts the process when one is missing.
    pub fn get() -> &'static Self {
        static FOUND: OnceLock<Functions> = OnceLock::new();
        FOUND.get_or_init(|| Self {
            // SAFETY: its type in ggml-backend.h or lastuse.h.
            set_eval_callback: unsafe { find(libc::RTLD_NEXT, c"ggml_backend_sched_set_eval_callback") },
            // SAFETY: its type in ggml-backend.h or lastuse.h.
            graph_compute_async: unsafe { find(libc::RTLD_NEXT, c"ggml_backend_sched_graph_compute_async") },
            // SAFETY: its type in ggml-backend.h or lastuse.h.
            sched_free: unsafe { find(libc::RTLD_NEXT, c"ggml_backend_sched_free") },
            // SAFETY: its type in ggml-backend.h or lastuse.h.
            guard_new: unsafe { find(libc::RTLD_DEFAULT, c"lastuse_guard_new") },
            // SAFETY: its type in ggml-backend.h or lastuse.h.
            guard_eval: unsafe { find(libc::RTLD_DEFAULT, c"lastuse_guard_eval") },
            // SAFETY: its type in ggml-backend.h or lastuse.h.
            guard_free: unsafe { find(libc::RTLD_DEFAULT, c"lastuse_guard_free") },
        })
    }
}

fn missing(name: &CStr) -> ! {
    eprintln!(
        "lastuse-guard: {} is missing: preload liblastuse.so before liblastuse_guard.so, into a program with a shared ggml \
         that it is linked with",
        name.to_string_lossy()
    );
    std::process::abort();
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
