//! Functions of ggml that this library wraps, and those of lastuse that it calls, by name.

use std::ffi::{CStr, c_void};
use std::ptr::null;

use crate::search::{find_anywhere, find_near, find_wrapped};

/// Returns a literal, whose only NUL is at its end, as the name of a function.
pub const fn c_name(literal: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(literal.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name without NUL"),
    }
}

/// Converts the address of a function to a pointer; aborts the process if it is null.
///
/// # Safety
/// `F` is the type of the function at `address`: a pointer to a function.
unsafe fn function<F: Copy>(name: &CStr, address: *const c_void) -> F {
    const { assert!(size_of::<F>() == size_of::<*const c_void>(), "a pointer") };
    if address.is_null() {
        missing(name);
    }
    // SAFETY: not null, of the same size, and a function of type `F`, as the caller guarantees.
    unsafe { std::mem::transmute_copy(&address) }
}

/// Finds a function of the ggml that the caller of this library is bound to.
///
/// # Safety
/// `F` is the type of the function of that name: a pointer to a function.
pub unsafe fn of_ggml<F: Copy>(name: &'static CStr) -> F {
    // SAFETY: `F` is the type of the function, as the caller guarantees.
    unsafe { function(name, find_wrapped(name)) }
}

/// Finds a function of lastuse.
///
/// # Safety
/// `F` is the type of the function of that name: a pointer to a function.
pub unsafe fn of_lastuse<F: Copy>(name: &CStr) -> F {
    // SAFETY: `F` is the type of the function, as the caller guarantees.
    unsafe { function(name, find_anywhere(name)) }
}

/// Finds a function of lastuse that a version of it may lack.
///
/// # Safety
/// `F` is the type of the function of that name: a pointer to a function.
pub unsafe fn of_lastuse_if_there<F: Copy>(name: &CStr) -> Option<F> {
    let found = Some(find_anywhere(name)).filter(|found| !found.is_null());
    // SAFETY: `F` is its type, as the caller guarantees.
    found.map(|found| unsafe { function(name, found) })
}

/// Returns the function of the ggml that an object belongs to: buffers, their types, devices and backends begin with an
/// address in the library that defines them. With several ggmls it is not always that which the caller is bound to.
///
/// # Safety
/// `F` is the type of the function of that name, and `object` is null or live.
pub unsafe fn of_object<F: Copy>(object: *const c_void, name: &'static CStr) -> F {
    // SAFETY: these objects begin with a pointer.
    let first = if object.is_null() { null() } else { unsafe { object.cast::<*const c_void>().read() } };
    let found = find_near(first.addr(), name).unwrap_or_else(|| find_wrapped(name));
    // SAFETY: `F` is its type, as the caller guarantees.
    unsafe { function(name, found) }
}

fn missing(name: &CStr) -> ! {
    let library = concat!("lib", env!("CARGO_CRATE_NAME"), ".so");
    eprintln!(
        "{}: {} is missing: preload liblastuse.so before {library}, into a program with a shared ggml",
        env!("CARGO_PKG_NAME"),
        name.to_string_lossy()
    );
    std::process::abort();
}
