//! A library to preload after `liblastuse.so` and the guard, for a dry run: a program loads its model, creates its contexts and reserves its
//! graphs as ever, and none of its buffers takes memory. It wraps the functions of ggml that allocate buffers, those that read
//! and write tensors and those that compute graphs, and the functions of the C library that read files.
//!
//! ```text
//!  stand_ins   buffers of the program's types, in address space that takes no memory
//!  contents    which bytes of them are there, and which were left out
//!  answers     what ggml's functions say of them
//!  tensors     reads and writes of tensors
//!  reads       weights are not read
//!  overlay     no file of the system is changed: the program sees what it has written over them
//!  files       the functions that open, name and change files
//!  pages       those that map files
//!  compute     graphs are allocated, and not computed
//!  waits       whether a thread that waits goes on by itself
//!  end         when there is nothing more to be learnt, and what is then written
//! ```
//!
//! `lastuse measure` preloads it, and names a folder in `LASTUSE_MEASURE`. Without that variable every call is forwarded.

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
#[path = "../../guard/src/search.rs"]
mod search;
#[allow(dead_code, reason = "this library needs only some of it")]
#[path = "../../guard/src/wrapped.rs"]
mod wrapped;

mod contents;
mod stand_ins;
mod answers;
mod tensors;
mod reads;
mod overlay;
mod files;
mod pages;
mod compute;
mod waits;
mod end;

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// The variable with the folder that is written to.
const MEASURE: &CStr = c"LASTUSE_MEASURE";

/// If it is set, schedulers make one copy of each input, as those of a ggml without pipelines.
const ONE_COPY: &CStr = c"LASTUSE_MEASURE_ONE_COPY";

static IS_ACTIVE: AtomicBool = AtomicBool::new(false);

/// Returns `true` in a dry run.
fn is_active() -> bool {
    IS_ACTIVE.load(Ordering::Relaxed)
}

type Allocate = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;

/// Called by the dynamic linker before the program starts.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    // SAFETY: the name ends in NUL.
    let folder = unsafe { libc::getenv(MEASURE.as_ptr()) };
    // SAFETY: not null: a string of the environment.
    if folder.is_null() || unsafe { CStr::from_ptr(folder) }.is_empty() {
        return;
    }
    overlay::begin();
    IS_ACTIVE.store(true, Ordering::Relaxed);
    // SAFETY: its type in lastuse.h.
    let allocate_by: unsafe extern "C" fn(Option<Allocate>) =
        unsafe { wrapped::of_lastuse(c"lastuse_buffer_allocate_by") };
    // SAFETY: the function stays, and returns buffers that ggml frees.
    unsafe { allocate_by(Some(stand_ins::allocate)) };
    end::write_at_exit();
}
