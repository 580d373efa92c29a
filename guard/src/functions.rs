//! The functions of ggml that are behind ours, and those of lastuse.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::Callback;

/// The variable that lastuse reads too.
const VERIFY: &CStr = c"LASTUSE_VERIFY";

/// `struct lastuse_guard_params` of lastuse.h.
#[repr(C)]
pub struct Params {
    pub struct_size: usize,
    pub words: *const c_char,
    pub next: Callback,
    pub next_user_data: *mut c_void,
}

/// All of them.
pub struct Functions {
    pub set_eval_callback: unsafe extern "C" fn(*mut c_void, Callback, *mut c_void),
    pub graph_compute_async: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
    pub sched_free: unsafe extern "C" fn(*mut c_void),
    pub guard_new: unsafe extern "C" fn(*const Params) -> *mut c_void,
    pub guard_eval: unsafe extern "C" fn(*mut c_void, bool, *mut c_void) -> bool,
    pub guard_free: unsafe extern "C" fn(*mut c_void),
}

/// Finds a function: behind this library in the order of the linker, or anywhere.
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
    /// Found once; ends the process when one is missing.
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

/// What the environment says; never freed. NULL when it says nothing.
pub fn verify_words() -> *const c_char {
    // SAFETY: the name ends in NUL.
    unsafe { libc::getenv(VERIFY.as_ptr()) }
}

/// Does the environment say that memory is to be guarded? What it says wrongly lastuse tells, and does nothing.
pub fn is_wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| {
        let words = verify_words();
        if words.is_null() {
            return false;
        }
        // SAFETY: a string of the environment.
        let text = unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned();
        let last = |wanted: &[&str]| {
            text.split(",").enumerate().filter(|(_, word)| wanted.contains(&word.trim())).map(|(at, _)| at).last()
        };
        last(&["memory", "weights"]) > last(&["off", "0"])
    })
}
