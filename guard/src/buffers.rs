//! The functions of ggml that allocate and free buffers. With `LASTUSE_ACCOUNTING`, `LASTUSE_LIVE` or
//! `LASTUSE_VERIFY=memory` lastuse is told of each buffer that the program, or a library of it, allocates; one that is a part of another is not told.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use crate::functions::is_enabled;
use crate::wrapped::{of_ggml, of_lastuse_if_there, of_object};

/// The environment variables, which lastuse reads too.
const ACCOUNTING: [&CStr; 2] = [c"LASTUSE_ACCOUNTING", c"LASTUSE_LIVE"];

/// The functions of lastuse that it is told by.
#[derive(Clone, Copy)]
struct Notes {
    allocated: unsafe extern "C" fn(*mut c_void, usize, bool) -> bool,
    freed: unsafe extern "C" fn(*mut c_void) -> bool,
}

/// Returns the functions of lastuse, if the environment asks for an accounting or for guards and they exist. Errors in the
/// values are left to lastuse, which reports them.
fn notes() -> Option<Notes> {
    static FOUND: OnceLock<Option<Notes>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let is_set = |name: &CStr| {
            // SAFETY: the name ends in NUL.
            let file = unsafe { libc::getenv(name.as_ptr()) };
            // SAFETY: not null: a string of the environment.
            !file.is_null() && !unsafe { CStr::from_ptr(file) }.is_empty()
        };
        if !ACCOUNTING.into_iter().any(is_set) && !is_enabled() {
            return None;
        }
        Some(Notes {
            // SAFETY: its type in lastuse.h.
            allocated: unsafe { of_lastuse_if_there(c"lastuse_buffer_note") }?,
            // SAFETY: its type in lastuse.h.
            freed: unsafe { of_lastuse_if_there(c"lastuse_buffer_note_free") }?,
        })
    })
}

thread_local! {
    /// The number of wrapped functions that this thread is in: a buffer type may allocate by another one.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Allocates a buffer, and tells lastuse of it if no other buffer is being allocated.
fn allocated(asked: usize, is_mapped: bool, allocate: impl FnOnce() -> *mut c_void) -> *mut c_void {
    let Some(notes) = notes() else { return allocate() };
    let depth = DEPTH.replace(DEPTH.get() + 1);
    let buffer = allocate();
    DEPTH.set(depth);
    if depth == 0 && !buffer.is_null() {
        // SAFETY: a live buffer, which nothing else knows yet.
        unsafe { (notes.allocated)(buffer, asked, is_mapped) };
    }
    buffer
}

/// Types of wrapped functions.
type Allocate = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type FromHostPointer = unsafe extern "C" fn(*mut c_void, *mut c_void, usize, usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);

/// Wraps ggml's function.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buft_alloc_buffer(buft: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: its type in ggml-backend.h.
    let function: Allocate = unsafe { of_object(buft, c"ggml_backend_buft_alloc_buffer") };
    // SAFETY: the caller's arguments, forwarded.
    allocated(size, false, || unsafe { function(buft, size) })
}

/// Wraps ggml's function.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_alloc_buffer(backend: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: its type in ggml-backend.h.
    let function: Allocate = unsafe { of_object(backend, c"ggml_backend_alloc_buffer") };
    // SAFETY: the caller's arguments, forwarded.
    allocated(size, false, || unsafe { function(backend, size) })
}

/// Wraps ggml's function.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_cpu_buffer_from_ptr(memory: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: its type in ggml-backend.h.
    let function: Allocate = unsafe { of_ggml(c"ggml_backend_cpu_buffer_from_ptr") };
    // SAFETY: the caller's arguments, forwarded.
    allocated(size, true, || unsafe { function(memory, size) })
}

/// Wraps ggml's function.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_buffer_from_host_ptr(
    device: *mut c_void,
    memory: *mut c_void,
    size: usize,
    max_tensor_size: usize,
) -> *mut c_void {
    // SAFETY: its type in ggml-backend.h.
    let function: FromHostPointer = unsafe { of_object(device, c"ggml_backend_dev_buffer_from_host_ptr") };
    // SAFETY: the caller's arguments, forwarded.
    allocated(size, true, || unsafe { function(device, memory, size, max_tensor_size) })
}

/// Wraps ggml's function: lastuse is told before the memory can be used again.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_free(buffer: *mut c_void) {
    if let (Some(notes), false) = (notes(), buffer.is_null()) {
        // SAFETY: a live buffer, which the caller frees.
        unsafe { (notes.freed)(buffer) };
    }
    // SAFETY: its type in ggml-backend.h.
    let function: Free = unsafe { of_object(buffer, c"ggml_backend_buffer_free") };
    // SAFETY: the caller's arguments, forwarded.
    unsafe { function(buffer) };
}
