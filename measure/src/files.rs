//! The functions of the C library that open, change and ask for files by their paths: what they do is decided by [`crate::overlay`].
//!
//! Those that open files are wrapped without a look at what is loaded, since the dynamic linker and allocators of memory call them, too.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

use libc::{DIR, FILE, off_t};

use crate::ggml::platform::next_symbol;
use crate::is_active;
use crate::overlay::{Access, Instead, adjusted, error, linked, made, opened, removed, renamed, set_error};
use crate::wrapped::c_name;

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

// ---------------------------------------------------------------------------------------------------
// Opening
// ---------------------------------------------------------------------------------------------------

fn access_of_flags(flags: c_int) -> Access {
    if flags & libc::O_TMPFILE == libc::O_TMPFILE {
        return Access::READ;
    }
    Access {
        writes: flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0,
        empties: flags & libc::O_TRUNC != 0,
        makes: flags & libc::O_CREAT != 0,
        is_new: flags & (libc::O_CREAT | libc::O_EXCL) == libc::O_CREAT | libc::O_EXCL,
    }
}

/// # Safety
/// `mode` is a string that ends in NUL.
unsafe fn access_of_mode(mode: *const c_char) -> Access {
    // SAFETY: a string that ends in NUL: see "# Safety".
    let mode = unsafe { CStr::from_ptr(mode) }.to_bytes();
    let is_new = mode.contains(&b'x');
    match mode.first() {
        Some(b'w') => Access { writes: true, empties: true, makes: true, is_new },
        Some(b'a') => Access { writes: true, empties: false, makes: true, is_new },
        _ if mode.contains(&b'+') => Access::CHANGE,
        _ => Access::READ,
    }
}

/// # Safety
/// The requirements of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    if is_active() && flags & libc::O_DIRECT != 0 {
        // What is read past the cache of the system goes through memory of the program. Programs then read such files in the
        // ordinary way.
        set_error(libc::EINVAL);
        return -1;
    }
    let open = |folder: c_int, path: *const c_char| {
        // SAFETY: the caller's arguments, or another path.
        let file = unsafe { libc::syscall(libc::SYS_openat, folder, path, flags, mode) };
        c_int::try_from(file).unwrap_or(-1)
    };
    // SAFETY: the caller's path.
    let instead = unsafe { opened(folder, path, access_of_flags(flags)) };
    instead.call(folder, path, open)
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
    creat64(path: *const c_char, mode: libc::mode_t)
        => libc::AT_FDCWD, path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode;
    __open_2(path: *const c_char, flags: c_int) => libc::AT_FDCWD, path, flags, 0;
    __open64_2(path: *const c_char, flags: c_int) => libc::AT_FDCWD, path, flags, 0;
    __openat_2(folder: c_int, path: *const c_char, flags: c_int) => folder, path, flags, 0;
    __openat64_2(folder: c_int, path: *const c_char, flags: c_int) => folder, path, flags, 0;
}

/// Wraps functions that return an object for a path; null if they fail.
macro_rules! wrap_objects {
    ($($name:ident($path:ident $(, $argument:ident: $type:ty)*) -> $result:ty, $access:expr;)+) => {
        $(
            /// # Safety
            /// The requirements of that function.
            #[unsafe(no_mangle)]
            #[allow(unused_unsafe, reason = "not each looks at arguments")]
            pub unsafe extern "C" fn $name($path: *const c_char $(, $argument: $type)*) -> *mut $result {
                static NEXT: OnceLock<usize> = OnceLock::new();
                const NAME: &CStr = c_name(concat!(stringify!($name), "\0"));
                // SAFETY: the caller's arguments.
                let access = unsafe { $access };
                // SAFETY: the caller's path.
                let instead = unsafe { opened(libc::AT_FDCWD, $path, access) };
                let $path = match &instead {
                    Instead::With(path) => path.as_ptr(),
                    Instead::Fails(error) => {
                        set_error(*error);
                        return null_mut();
                    }
                    Instead::AsAsked | Instead::Done => $path,
                };
                // SAFETY: its type in the C library.
                let next: unsafe extern "C" fn(*const c_char $(, $type)*) -> *mut $result = unsafe { next(&NEXT, NAME) };
                // SAFETY: the caller's arguments, or another path.
                unsafe { next($path $(, $argument)*) }
            }
        )+
    };
}

wrap_objects! {
    fopen(path, mode: *const c_char) -> FILE, access_of_mode(mode);
    fopen64(path, mode: *const c_char) -> FILE, access_of_mode(mode);
    freopen(path, mode: *const c_char, stream: *mut FILE) -> FILE, access_of_mode(mode);
    freopen64(path, mode: *const c_char, stream: *mut FILE) -> FILE, access_of_mode(mode);
    opendir(path) -> DIR, Access::READ;
}

// ---------------------------------------------------------------------------------------------------
// Names
// ---------------------------------------------------------------------------------------------------

/// Defines functions that change names of files, by a system call that has a folder for each path.
macro_rules! names {
    ($($name:ident($($argument:ident: $type:ty),*) $decided:expr => $at:expr, $path:expr, |$place:ident, $named:ident| $call:expr;)+) => {
        $(
            /// # Safety
            /// The requirements of that function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                // SAFETY: the caller's paths.
                let instead = unsafe { $decided };
                // SAFETY: the caller's arguments, or another path.
                let call = |$place: c_int, $named: *const c_char| c_int::try_from(unsafe { $call }).unwrap_or(-1);
                instead.call($at, $path, call)
            }
        )+
    };
}

const HERE: c_int = libc::AT_FDCWD;

names! {
    unlinkat(at: c_int, path: *const c_char, flags: c_int) removed(at, path, flags & libc::AT_REMOVEDIR != 0)
        => at, path, |at, path| libc::syscall(libc::SYS_unlinkat, at, path, flags);
    renameat2(at: c_int, path: *const c_char, to: c_int, other: *const c_char, flags: c_uint)
        renamed((at, path), (to, other), flags)
        => at, path, |at, path| libc::syscall(libc::SYS_renameat2, at, path, to, other, flags);
    mkdirat(at: c_int, path: *const c_char, mode: libc::mode_t) made(at, path)
        => at, path, |at, path| libc::syscall(libc::SYS_mkdirat, at, path, mode);
    symlinkat(target: *const c_char, at: c_int, path: *const c_char) linked((HERE, target), (at, path), true)
        => at, path, |at, path| libc::syscall(libc::SYS_symlinkat, target, at, path);
    linkat(from: c_int, target: *const c_char, at: c_int, path: *const c_char, flags: c_int)
        linked((from, target), (at, path), false)
        => at, path, |at, path| libc::syscall(libc::SYS_linkat, from, target, at, path, flags);
    fchmodat(at: c_int, path: *const c_char, mode: libc::mode_t, flags: c_int) adjusted(at, path)
        => at, path, |at, path| libc::syscall(libc::SYS_fchmodat, at, path, mode, flags);
    fchownat(at: c_int, path: *const c_char, owner: libc::uid_t, group: libc::gid_t, flags: c_int) adjusted(at, path)
        => at, path, |at, path| libc::syscall(libc::SYS_fchownat, at, path, owner, group, flags);
    truncate(path: *const c_char, length: off_t) opened(HERE, path, Access::CHANGE)
        => HERE, path, |_at, path| libc::syscall(libc::SYS_truncate, path, length);
    chdir(path: *const c_char) opened(HERE, path, Access::READ)
        => HERE, path, |_at, path| libc::syscall(libc::SYS_chdir, path);
    faccessat(at: c_int, path: *const c_char, mode: c_int, flags: c_int) opened(at, path, Access::READ)
        => at, path, |at, path| libc::syscall(libc::SYS_faccessat, at, path, mode, flags);
    fstatat(at: c_int, path: *const c_char, facts: *mut c_void, flags: c_int) opened(at, path, Access::READ)
        => at, path, |at, path| libc::syscall(libc::SYS_newfstatat, at, path, facts, flags);
    statx(at: c_int, path: *const c_char, flags: c_int, mask: c_uint, facts: *mut c_void) opened(at, path, Access::READ)
        => at, path, |at, path| libc::syscall(libc::SYS_statx, at, path, flags, mask, facts);
    utimensat(at: c_int, path: *const c_char, times: *const c_void, flags: c_int) adjusted(at, path)
        => at, path, |at, path| libc::syscall(libc::SYS_utimensat, at, path, times, flags);
}

/// Defines functions by another one with more arguments.
macro_rules! short_names {
    ($($name:ident($($argument:ident: $type:ty),*) => $call:expr;)+) => {
        $(
            /// # Safety
            /// The requirements of that function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                // SAFETY: the caller's arguments, forwarded.
                unsafe { $call }
            }
        )+
    };
}

short_names! {
    unlink(path: *const c_char) => unlinkat(HERE, path, 0);
    rmdir(path: *const c_char) => unlinkat(HERE, path, libc::AT_REMOVEDIR);
    rename(path: *const c_char, to: *const c_char) => renameat2(HERE, path, HERE, to, 0);
    renameat(at: c_int, path: *const c_char, to: c_int, other: *const c_char) => renameat2(at, path, to, other, 0);
    mkdir(path: *const c_char, mode: libc::mode_t) => mkdirat(HERE, path, mode);
    symlink(target: *const c_char, path: *const c_char) => symlinkat(target, HERE, path);
    link(target: *const c_char, path: *const c_char) => linkat(HERE, target, HERE, path, 0);
    chmod(path: *const c_char, mode: libc::mode_t) => fchmodat(HERE, path, mode, 0);
    chown(path: *const c_char, owner: libc::uid_t, group: libc::gid_t) => fchownat(HERE, path, owner, group, 0);
    truncate64(path: *const c_char, length: off_t) => truncate(path, length);
    access(path: *const c_char, mode: c_int) => faccessat(HERE, path, mode, 0);
    fstatat64(at: c_int, path: *const c_char, facts: *mut c_void, flags: c_int) => fstatat(at, path, facts, flags);
    stat(path: *const c_char, facts: *mut c_void) => fstatat(HERE, path, facts, 0);
    stat64(path: *const c_char, facts: *mut c_void) => fstatat(HERE, path, facts, 0);
    lstat(path: *const c_char, facts: *mut c_void) => fstatat(HERE, path, facts, libc::AT_SYMLINK_NOFOLLOW);
    lstat64(path: *const c_char, facts: *mut c_void) => fstatat(HERE, path, facts, libc::AT_SYMLINK_NOFOLLOW);
}

/// Removes a file or an empty folder, as the C library's function does.
///
/// # Safety
/// The requirements of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn remove(path: *const c_char) -> c_int {
    // SAFETY: the caller's path.
    let done = unsafe { unlink(path) };
    if done == 0 || ![libc::EISDIR, libc::EPERM].contains(&error()) {
        return done;
    }
    // SAFETY: the caller's path.
    unsafe { rmdir(path) }
}

/// Writes a unique name to `template`, in place of its "XXXXXX" before the last `suffix` bytes, and makes what has that name.
///
/// # Safety
/// `template` is a string that ends in NUL and can be written.
unsafe fn make_unique(template: *mut c_char, suffix: c_int, make: impl Fn(*const c_char) -> c_int) -> c_int {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    // SAFETY: a string that ends in NUL: see "# Safety".
    let length = unsafe { libc::strlen(template) };
    let start = usize::try_from(suffix).ok().and_then(|suffix| length.checked_sub(suffix)?.checked_sub(6));
    let Some(start) = start else {
        set_error(libc::EINVAL);
        return -1;
    };
    loop {
        let mut random = [0_u8; 6];
        // SAFETY: six bytes, which are writable.
        if unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) } != 6 {
            return -1;
        }
        for (at, byte) in random.into_iter().enumerate() {
            let letter = LETTERS[usize::from(byte) % LETTERS.len()];
            let place = template.wrapping_add(start + at).cast::<u8>();
            // SAFETY: within the string.
            unsafe { place.write(letter) };
        }
        let made = make(template);
        if made >= 0 || error() != libc::EEXIST {
            return made;
        }
    }
}

/// Defines functions that make a file with a unique name, which the C library would open itself.
macro_rules! temporary {
    ($($name:ident($template:ident $(, $argument:ident)*) => $suffix:expr, $flags:expr;)+) => {
        $(
            /// # Safety
            /// The requirements of that function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($template: *mut c_char $(, $argument: c_int)*) -> c_int {
                let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | $flags;
                // SAFETY: the caller's template.
                let open = |path| unsafe { openat(HERE, path, flags, 0o600) };
                // SAFETY: as above.
                unsafe { make_unique($template, $suffix, open) }
            }
        )+
    };
}

temporary! {
    mkstemp(template) => 0, 0;
    mkstemp64(template) => 0, 0;
    mkostemp(template, flags) => 0, flags & !libc::O_ACCMODE;
    mkostemp64(template, flags) => 0, flags & !libc::O_ACCMODE;
    mkstemps(template, suffix) => suffix, 0;
    mkstemps64(template, suffix) => suffix, 0;
    mkostemps(template, suffix, flags) => suffix, flags & !libc::O_ACCMODE;
    mkostemps64(template, suffix, flags) => suffix, flags & !libc::O_ACCMODE;
}

/// Makes a folder with a unique name, as the C library's function does.
///
/// # Safety
/// The requirements of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdtemp(template: *mut c_char) -> *mut c_char {
    // SAFETY: the caller's template.
    let make = |path| unsafe { mkdir(path, 0o700) };
    // SAFETY: as above.
    if unsafe { make_unique(template, 0, make) } < 0 { null_mut() } else { template }
}
