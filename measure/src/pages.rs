//! The functions of the C library that map files and lock pages: nothing is read before it is used.

use std::ffi::{c_int, c_void};

use libc::{off_t, size_t};

use crate::is_active;
use crate::overlay::error;

/// Wraps the C library's function: pages of a file are not read before they are used.
///
/// # Safety
/// The requirements of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    at: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    file: c_int,
    position: off_t,
) -> *mut c_void {
    let flags = if is_active() && file >= 0 { flags & !libc::MAP_POPULATE } else { flags };
    // SAFETY: the caller's arguments, forwarded.
    let mapped = unsafe { libc::syscall(libc::SYS_mmap, at, length, protection, flags, file, position) };
    std::ptr::with_exposed_provenance_mut(usize::from_ne_bytes(mapped.to_ne_bytes()))
}

/// # Safety
/// The requirements of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    at: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    file: c_int,
    position: off_t,
) -> *mut c_void {
    // SAFETY: the caller's arguments, forwarded.
    unsafe { mmap(at, length, protection, flags, file, position) }
}

/// Linux's number of the advice that reads pages.
const MADV_POPULATE_READ: c_int = 22;

/// Wraps the C library's function: pages are not read ahead.
///
/// # Safety
/// The requirements of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(at: *mut c_void, length: size_t, advice: c_int) -> c_int {
    if is_active() && [libc::MADV_WILLNEED, MADV_POPULATE_READ].contains(&advice) {
        return 0;
    }
    // SAFETY: the caller's arguments, forwarded.
    let done = unsafe { libc::syscall(libc::SYS_madvise, at, length, advice) };
    c_int::try_from(done).unwrap_or(-1)
}

/// Wraps the C library's function: as [`madvise`]; it returns the error, and does nothing for pages that are not needed.
///
/// # Safety
/// The requirements of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_madvise(at: *mut c_void, length: size_t, advice: c_int) -> c_int {
    if advice == libc::POSIX_MADV_DONTNEED {
        return 0;
    }
    // SAFETY: the caller's arguments, forwarded.
    if unsafe { madvise(at, length, advice) } == 0 {
        return 0;
    }
    error()
}

/// Defines functions that lock pages, which would read them: they lock none.
macro_rules! locks {
    ($($name:ident($($argument:ident: $type:ty),*) by $call:ident;)+) => {
        $(
            /// # Safety
            /// The requirements of that function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                if is_active() {
                    return 0;
                }
                // SAFETY: the caller's arguments, forwarded.
                c_int::try_from(unsafe { libc::syscall(libc::$call, $($argument),*) }).unwrap_or(-1)
            }
        )+
    };
}

locks! {
    mlock(at: *const c_void, length: size_t) by SYS_mlock;
    mlock2(at: *const c_void, length: size_t, flags: c_int) by SYS_mlock2;
    mlockall(flags: c_int) by SYS_mlockall;
}
