//! What Linux and macOS have in common: POSIX.

mod gzip;

use std::borrow::Cow;
use std::cell::UnsafeCell;
use std::ffi::{CStr, CString, OsStr, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

pub use gzip::Gzip;

use super::system::{RESERVED, ZLIB};

/// An open handle of a loaded library, which stays loaded until this value is dropped.
#[derive(Debug)]
pub struct Library {
    handle: *mut c_void,
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and not used afterwards.
        unsafe { libc::dlclose(self.handle) };
    }
}

impl Library {
    /// Opens the global scope: the program, the libraries it needs, and those loaded later with `RTLD_GLOBAL`.
    pub fn global_scope() -> Option<Self> {
        // SAFETY: null means the program, which is loaded.
        let handle = unsafe { libc::dlopen(ptr::null(), libc::RTLD_LAZY) };
        // SAFETY: just opened.
        unsafe { Self::from_handle(handle) }
    }

    /// Opens a library that is loaded, which has this file and these addresses.
    pub fn loaded(path: &CStr, _addresses: &Range<usize>) -> Option<Self> {
        // SAFETY: RTLD_NOLOAD only opens a library that is loaded.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        // SAFETY: just opened.
        unsafe { Self::from_handle(handle) }
    }

    /// # Safety
    /// `handle` is null, or comes from `dlopen` and is closed by nothing else.
    unsafe fn from_handle(handle: *mut c_void) -> Option<Self> {
        // Not `then_some`, which would close the null handle.
        (!handle.is_null()).then(|| Self { handle })
    }

    /// Returns the address of a symbol that the library, or one that it needs, defines; null if there is none.
    pub fn symbol(&self, name: &CStr) -> *const c_void {
        // SAFETY: the handle is open, and the name ends in NUL.
        unsafe { libc::dlsym(self.handle, name.as_ptr()) }
    }
}

/// Returns the definition of `name` that comes after that of this code's object in lookup order; null if there is none.
pub fn next_symbol(name: &CStr) -> *const c_void {
    // SAFETY: the name ends in NUL.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// Returns the start of the exported function that contains `address`; null if there is none.
pub fn function_at(address: usize) -> *const c_void {
    // SAFETY: plain old data; all zero is a valid value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is writable; any address is allowed.
    let is_known = unsafe { libc::dladdr(ptr::without_provenance(address), &raw mut info) } != 0;
    if is_known { info.dli_saddr } else { ptr::null() }
}

// The unwinder that Rust's standard library is linked with.
unsafe extern "C" {
    fn _Unwind_Backtrace(
        visit: unsafe extern "C" fn(frame: *mut c_void, visit: *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

const GO_ON: c_int = 0;
const STOP: c_int = 5;

/// Calls `visit` with the return address in each frame of the stack, the innermost first, until it returns `false`.
pub fn backtrace<F: FnMut(usize) -> bool>(mut visit: F) {
    unsafe extern "C" fn each<F: FnMut(usize) -> bool>(frame: *mut c_void, visit: *mut c_void) -> c_int {
        // SAFETY: the closure below, which nothing else touches meanwhile.
        let visit = unsafe { &mut *visit.cast::<F>() };
        // SAFETY: the unwinder passes a frame.
        let address = unsafe { _Unwind_GetIP(frame) };
        if address != 0 && visit(address) { GO_ON } else { STOP }
    }
    // SAFETY: `each` matches the type of `visit`, which outlives the call.
    unsafe { _Unwind_Backtrace(each::<F>, ptr::from_mut(&mut visit).cast()) };
}

/// A mutex of the system's thread library.
pub struct Mutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: it is made for use by several threads.
unsafe impl Sync for Mutex {}

impl Mutex {
    /// Creates it unlocked.
    pub const fn new() -> Self {
        Self(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }

    /// Waits until no other thread holds it.
    ///
    /// # Safety
    /// This thread does not hold it. It is not moved afterwards.
    pub unsafe fn lock(&self) {
        // SAFETY: a mutex that was initialized and is never moved: see "# Safety".
        let status = unsafe { libc::pthread_mutex_lock(self.0.get()) };
        assert_eq!(status, 0, "a mutex cannot be locked");
    }

    /// Lets other threads lock it.
    ///
    /// # Safety
    /// This thread holds it.
    pub unsafe fn unlock(&self) {
        // SAFETY: this thread holds the mutex: see "# Safety".
        let status = unsafe { libc::pthread_mutex_unlock(self.0.get()) };
        debug_assert_eq!(status, 0, "a mutex cannot be unlocked");
    }
}

/// Calls a function in which no signal is handled: a thread that it starts leaves them to the threads of the program.
pub fn without_signals<T>(act: impl FnOnce() -> T) -> T {
    let (mut all, mut before) = (MaybeUninit::<libc::sigset_t>::uninit(), MaybeUninit::<libc::sigset_t>::uninit());
    // SAFETY: a set to be filled.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: a filled set, and one to be filled with what is blocked now.
    let blocked = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    let done = act();
    if blocked == 0 {
        // SAFETY: the set that was filled above.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    }
    done
}

/// Returns the bytes of a page.
pub fn page_size() -> usize {
    // SAFETY: takes a constant.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Returns the bytes of the machine's memory.
pub fn physical_memory() -> Option<u64> {
    // SAFETY: takes a constant.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    u64::try_from(pages).ok()?.checked_mul(u64::try_from(page_size()).ok()?)
}

/// Reserves whole pages of address space: readable, writable, zero where they were never written.
///
/// # Errors
/// That of the system.
pub fn reserve(length: usize) -> io::Result<*mut c_void> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address that the system chooses affects no other.
    let start = unsafe { libc::mmap(ptr::null_mut(), length, protection, RESERVED, -1, 0) };
    if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(start) }
}

/// Gives back the end of a reservation: everything from `length` bytes, which are whole pages, to the end at `whole` bytes.
///
/// # Safety
/// A reservation of `whole` bytes, whose end is not used.
pub unsafe fn shorten(start: *mut c_void, whole: usize, length: usize) {
    // SAFETY: the end of a mapping, which is not used: see "# Safety".
    unsafe { libc::munmap(start.wrapping_byte_add(length), whole - length) };
}

/// Gives back a reservation of `length` bytes.
///
/// # Safety
/// It is not used any more.
pub unsafe fn release(start: *mut c_void, length: usize) {
    // SAFETY: a mapping that is not used: see "# Safety".
    unsafe { libc::munmap(start, length) };
}

/// Gives back the memory of a reservation of `length` bytes and keeps its addresses, any use of which then faults.
///
/// # Safety
/// Nothing that is there is needed.
#[cfg(debug_assertions)]
pub unsafe fn forbid(start: *mut c_void, length: usize) {
    // SAFETY: replaces a mapping that is not needed: see "# Safety".
    unsafe { libc::mmap(start, length, libc::PROT_NONE, RESERVED | libc::MAP_FIXED, -1, 0) };
}

/// Gives back the memory of whole pages, which are 0 when they are read again. Returns `false` if the system does not take it.
///
/// # Safety
/// Memory for which `is_private_and_anonymous` has returned `true`, and whose bytes are not needed.
pub unsafe fn discard(start: *mut c_void, length: usize) -> bool {
    // SAFETY: memory of this process, whose bytes are not needed: see "# Safety".
    unsafe { libc::madvise(start, length, libc::MADV_DONTNEED) == 0 }
}

/// Returns a text of C, such as a path, as Rust's.
pub fn text(text: &CStr) -> Cow<'_, OsStr> {
    Cow::Borrowed(OsStr::from_bytes(text.to_bytes()))
}

/// Checks that a folder exists and is writable.
///
/// # Errors
/// If it does not or is not.
pub fn check_writable_folder(folder: &Path) -> io::Result<()> {
    let path = CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: a string that ends in NUL.
    let result = unsafe { libc::access(path.as_ptr(), libc::W_OK | libc::X_OK) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Opens zlib, which stays loaded until the process ends.
fn open_zlib() -> Option<Library> {
    // SAFETY: zlib runs no code when it is loaded.
    let handle = unsafe { libc::dlopen(ZLIB.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    // SAFETY: just opened.
    unsafe { Library::from_handle(handle) }
}
