//! The functions of the C library that open and map files: nothing is read ahead, and files that would hold results are not written.
//!
//! They are wrapped without a look at what is loaded, since the dynamic linker and allocators of memory call them too.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use libc::{FILE, off_t, size_t};

use crate::ggml::platform::next_symbol;
use crate::is_active;
use crate::results::{Use, opened, removed, renamed};
use crate::wrapped::c_name;

type Open = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut FILE;
type Reopen = unsafe extern "C" fn(*const c_char, *const c_char, *mut FILE) -> *mut FILE;

/// Returns the function of the C library with this name.
///
/// # Safety
/// `F` is its type.
pub unsafe fn next<F: Copy>(known: &OnceLock<usize>, name: &CStr) -> F {
    const { assert!(size_of::<F>() == size_of::<usize>(), "a pointer") };
    let address = *known.get_or_init(|| next_symbol(name).expose_provenance());
    // SAFETY: the C library has it, and `F` is its type.
    unsafe { std::mem::transmute_copy(&address) }
}

fn use_of_flags(flags: c_int) -> Use {
    match flags & libc::O_ACCMODE {
        libc::O_RDONLY => Use::Read,
        _ if flags & libc::O_TRUNC != 0 => Use::Replace,
        _ => Use::Change,
    }
}

/// # Safety
/// `mode` is a string that ends in NUL.
unsafe fn use_of_mode(mode: *const c_char) -> Use {
    // SAFETY: a string that ends in NUL: see "# Safety".
    let mode = unsafe { CStr::from_ptr(mode) }.to_bytes();
    match mode.first() {
        Some(b'w') => Use::Replace,
        Some(b'a') => Use::Change,
        _ if mode.contains(&b'+') => Use::Change,
        _ => Use::Read,
    }
}

/// # Safety
/// The requirements of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    if is_active() && flags & libc::O_DIRECT != 0 {
        // What is read past the cache of the system goes through memory of the program. Programs then read such files in the
        // ordinary way.
        // SAFETY: takes nothing.
        let error = unsafe { libc::__errno_location() };
        // SAFETY: the address of this thread's error number.
        unsafe { error.write(libc::EINVAL) };
        return -1;
    }
    // SAFETY: the caller's path.
    let path = unsafe { opened(path, use_of_flags(flags)) };
    // SAFETY: the caller's arguments, forwarded.
    let file = unsafe { libc::syscall(libc::SYS_openat, folder, path, flags, mode) };
    c_int::try_from(file).unwrap_or(-1)
}

/// Defines functions that open a file by another one.
macro_rules! opens {
    ($($name:ident($($argument:ident: $type:ty),*) => $folder:expr, $path:expr, $flags:expr, $mode:expr;)+) => {
        $(
            /// # Safety
            /// The requirements of that function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                // SAFETY: the caller's arguments, forwarded.
                unsafe { openat($folder, $path, $flags, $mode) }
            }
        )+
    };
}

opens! {
    open(path: *const c_char, flags: c_int, mode: libc::mode_t) => libc::AT_FDCWD, path, flags, mode;
    open64(path: *const c_char, flags: c_int, mode: libc::mode_t) => libc::AT_FDCWD, path, flags, mode;
    openat64(folder: c_int, path: *const c_char, flags: c_int, mode: libc::mode_t) => folder, path, flags, mode;
    creat(path: *const c_char, mode: libc::mode_t)
        => libc::AT_FDCWD, path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode;
    __open_2(path: *const c_char, flags: c_int) => libc::AT_FDCWD, path, flags, 0;
    __open64_2(path: *const c_char, flags: c_int) => libc::AT_FDCWD, path, flags, 0;
}

/// Wraps functions that open a stream.
macro_rules! wrap_streams {
    ($($name:ident($path:ident, $mode:ident $(, $stream:ident)?): $type:ty;)+) => {
        $(
            /// # Safety
            /// The requirements of that function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                $path: *const c_char,
                $mode: *const c_char,
                $($stream: *mut FILE,)?
            ) -> *mut FILE {
                static NEXT: OnceLock<usize> = OnceLock::new();
                const NAME: &CStr = c_name(concat!(stringify!($name), "\0"));
                // SAFETY: the caller's mode.
                let how = unsafe { use_of_mode($mode) };
                // SAFETY: the caller's path.
                let $path = unsafe { opened($path, how) };
                // SAFETY: its type in stdio.h.
                let next: $type = unsafe { next(&NEXT, NAME) };
                // SAFETY: the caller's arguments, forwarded.
                unsafe { next($path, $mode $(, $stream)?) }
            }
        )+
    };
}

wrap_streams! {
    fopen(path, mode): Open;
    fopen64(path, mode): Open;
    freopen(path, mode, stream): Reopen;
    freopen64(path, mode, stream): Reopen;
}

/// Wraps the C library's function: a file of results may be written under another name first. One that would be replaced stays.
///
/// # Safety
/// The requirements of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the caller's paths.
    if unsafe { renamed(from, to) } {
        return 0;
    }
    // SAFETY: the caller's arguments, forwarded.
    let done = unsafe { libc::syscall(libc::SYS_renameat2, libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) };
    c_int::try_from(done).unwrap_or(-1)
}

/// Defines functions that remove a file by its path: one that was there before the program started stays.
macro_rules! removes {
    ($($name:ident)+) => {
        $(
            /// # Safety
            /// The requirements of that function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(path: *const c_char) -> c_int {
                static NEXT: OnceLock<usize> = OnceLock::new();
                const NAME: &CStr = c_name(concat!(stringify!($name), "\0"));
                // SAFETY: the caller's path.
                let Some(path) = (unsafe { removed(path) }) else { return 0 };
                // SAFETY: its type in stdio.h or unistd.h.
                let next: unsafe extern "C" fn(*const c_char) -> c_int = unsafe { next(&NEXT, NAME) };
                // SAFETY: the caller's path, or that of the file in its place.
                unsafe { next(path) }
            }
        )+
    };
}

removes! { unlink remove }

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
    // SAFETY: takes nothing.
    let error = unsafe { libc::__errno_location() };
    // SAFETY: the address of this thread's error number.
    unsafe { error.read() }
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
