//! Windows on x86-64: modules, memory by `VirtualAlloc`, slim locks.

mod api;
mod module;

use std::borrow::Cow;
use std::cell::UnsafeCell;
use std::ffi::{CStr, CString, OsStr, OsString, c_void};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;
use std::ptr;

use super::BoundCall;
use api::{AcquireSRWLockExclusive, GlobalMemoryStatusEx, MemoryStatus, ReleaseSRWLockExclusive};
use api::{COMMIT_AND_RESERVE, DECOMMIT, READ_AND_WRITE, RELEASE, VirtualAlloc, VirtualFree};
use api::{FreeLibrary, GetModuleHandleExW, RtlCaptureStackBackTrace, RtlLookupFunctionEntry};
use module::Module;

/// Why [`Gzip`] is not found.
pub const NO_GZIP: &str = "lastuse compresses nothing on Windows";

/// The most bytes that a context of default size reserves. Windows promises memory for all of it.
pub const LARGEST_DEFAULT: Option<usize> = Some(256 << 20);

/// The most frames of a stack that are looked at.
const MOST_FRAMES: u32 = 128;

/// A module, which stays loaded while it is looked at unless another thread unloads it.
#[derive(Debug)]
pub struct LoadedObject<'a>(Module, PhantomData<&'a ()>);

impl LoadedObject<'_> {
    /// Returns its file.
    pub fn path(&self) -> CString {
        self.0.path()
    }

    /// Returns the addresses from its first to its last byte.
    pub fn addresses(&self) -> Range<usize> {
        self.0.addresses()
    }

    /// Returns `true` if it exports `name` from its own code. Windows always tells.
    #[allow(clippy::unnecessary_wraps, reason = "other systems do not always tell")]
    pub fn exports(&self, name: &CStr) -> Option<bool> {
        Some(self.addresses().contains(&self.0.export(name).addr()))
    }

    /// Calls nothing: calls are bound to the DLL that they were linked with, and not to the first that has the function.
    #[allow(clippy::unused_self, reason = "other systems have tables")]
    pub fn bound_calls(&self, _prefix: &[u8], _visit: impl FnMut(BoundCall<'_>)) {}
}

/// Calls `visit` for each module that is loaded now: the program comes first.
pub fn for_each_object<F: FnMut(&LoadedObject<'_>)>(mut visit: F) {
    Module::all().into_iter().for_each(|module| visit(&LoadedObject(module, PhantomData)));
}

/// Returns a number that changes when modules are loaded.
pub fn load_count() -> u64 {
    let mut hasher = DefaultHasher::new();
    Module::all().into_iter().for_each(|module| module.0.hash(&mut hasher));
    hasher.finish()
}

/// A module, which stays loaded until this value is dropped.
#[derive(Debug)]
pub struct Library(Module);

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: opened by `loaded`, and not used afterwards.
        unsafe { FreeLibrary(self.0.handle()) };
    }
}

impl Library {
    /// Opens the program, with the modules that it needs.
    pub fn global_scope() -> Option<Self> {
        Module::all().first().and_then(|program| Self::loaded(c"", &program.addresses()))
    }

    /// Opens a module that is loaded, which has this file and these addresses.
    pub fn loaded(_path: &CStr, addresses: &Range<usize>) -> Option<Self> {
        const FROM_ADDRESS: u32 = 4;
        let mut handle = ptr::null_mut();
        let start = ptr::with_exposed_provenance(addresses.start);
        // SAFETY: any address is allowed; the handle is writable.
        let is_loaded = unsafe { GetModuleHandleExW(FROM_ADDRESS, start, &raw mut handle) } != 0;
        is_loaded.then(|| Self(Module(handle.expose_provenance())))
    }

    /// Returns the address of a symbol that the module, or one that it needs, exports; null if there is none.
    pub fn symbol(&self, name: &CStr) -> *const c_void {
        self.0.symbol(name)
    }
}

/// Returns null: nothing is interposed before another definition.
pub fn next_symbol(_name: &CStr) -> *const c_void {
    ptr::null()
}

/// Returns the start of the function that contains `address`; null if there is none.
pub fn function_at(address: usize) -> *const c_void {
    let mut base = 0;
    // SAFETY: any address is allowed; the base is writable.
    let entry = unsafe { RtlLookupFunctionEntry(address as u64, &raw mut base, ptr::null_mut()) };
    if entry.is_null() {
        return ptr::null();
    }
    // SAFETY: an entry begins with the offset of the function in its module.
    let offset = unsafe { entry.read() };
    usize::try_from(base).map_or(ptr::null(), |base| ptr::with_exposed_provenance(base + offset as usize))
}

/// Calls `visit` with the return address in each frame of the stack, the innermost first, until it returns `false`.
pub fn backtrace<F: FnMut(usize) -> bool>(mut visit: F) {
    let mut frames = [ptr::null_mut(); MOST_FRAMES as usize];
    // SAFETY: writes as many frames at most.
    let count = unsafe { RtlCaptureStackBackTrace(0, MOST_FRAMES, frames.as_mut_ptr(), ptr::null_mut()) };
    let _ = frames[..count.into()].iter().all(|frame| !frame.is_null() && visit(frame.addr()));
}

/// Defines a table of one pointer for each name, null where the program has no such function. The functions of a `hidden`
/// table are in the same module, or in none.
macro_rules! weak_table {
    (hidden $table:literal: $($name:expr),* $(,)?) => {
        weak_table!($table: $($name),*);
    };
    ($table:literal: $($name:expr),* $(,)?) => {
        std::arch::global_asm!(
            ".section .data$lastuse,\"dw\"",
            ".balign 8",
            concat!(".globl ", $table),
            concat!($table, ":"),
            $(concat!(".weak ", $name, "\n.8byte ", $name),)*
            ".text",
        );
    };
}
pub(in crate::ggml) use weak_table;

/// Calls a function when the process ends: `atexit` is told when the program starts.
macro_rules! at_end {
    ($function:path) => {
        #[used]
        #[unsafe(link_section = ".CRT$XCU")]
        static AT_START: extern "C" fn() = {
            extern "C" fn register() {
                // SAFETY: a function of this library, which the C library calls before it unloads the library.
                unsafe { libc::atexit($function) };
            }
            register
        };
    };
}
pub(in crate::ggml) use at_end;

/// A slim lock.
pub struct Mutex(UnsafeCell<*mut c_void>);

// SAFETY: it is made for use by several threads.
unsafe impl Sync for Mutex {}
// SAFETY: as above.
unsafe impl Send for Mutex {}

impl Mutex {
    /// Creates it unlocked.
    pub const fn new() -> Self {
        Self(UnsafeCell::new(ptr::null_mut()))
    }

    /// Waits until no other thread holds it.
    ///
    /// # Safety
    /// This thread does not hold it. It is not moved afterwards.
    pub unsafe fn lock(&self) {
        // SAFETY: a lock that is null at first and never moved: see "# Safety".
        unsafe { AcquireSRWLockExclusive(self.0.get().cast()) };
    }

    /// Lets other threads lock it.
    ///
    /// # Safety
    /// This thread holds it.
    pub unsafe fn unlock(&self) {
        // SAFETY: this thread holds the lock: see "# Safety".
        unsafe { ReleaseSRWLockExclusive(self.0.get().cast()) };
    }
}

/// Calls a function: there are no signals.
pub fn without_signals<T>(act: impl FnOnce() -> T) -> T {
    act()
}

/// Returns the bytes of a page, which are the same on all of them.
pub fn page_size() -> usize {
    4096
}

fn memory_status() -> Option<MemoryStatus> {
    let length = u32::try_from(size_of::<MemoryStatus>()).ok()?;
    let mut status = MemoryStatus { length, load: 0, total_physical: 0, available_physical: 0, others: [0; 5] };
    // SAFETY: writable, and of the length that it states.
    (unsafe { GlobalMemoryStatusEx(&raw mut status) } != 0).then_some(status)
}

/// Returns the bytes of the machine's memory.
pub fn physical_memory() -> Option<u64> {
    memory_status().map(|status| status.total_physical)
}

/// Returns the bytes of the machine's memory that nothing uses.
pub fn free_memory() -> Option<u64> {
    memory_status().map(|status| status.available_physical)
}

/// Reserves whole pages of address space: readable, writable, zero where they were never written. Windows promises memory for
/// all of them, and takes it where they are used.
///
/// # Errors
/// That of the system.
pub fn reserve(length: usize) -> io::Result<*mut c_void> {
    // SAFETY: new memory at an address that the system chooses affects no other.
    let start = unsafe { VirtualAlloc(ptr::null_mut(), length, COMMIT_AND_RESERVE, READ_AND_WRITE) };
    if start.is_null() { Err(io::Error::last_os_error()) } else { Ok(start) }
}

/// Gives back the memory at the end of a reservation: from `length` bytes, which are whole pages, to the end at `whole` bytes.
/// Its addresses stay reserved.
///
/// # Safety
/// A reservation of `whole` bytes, whose end is not used.
pub unsafe fn shorten(start: *mut c_void, whole: usize, length: usize) {
    // SAFETY: the end of a reservation, which is not used: see "# Safety".
    unsafe { VirtualFree(start.wrapping_byte_add(length), whole - length, DECOMMIT) };
}

/// Gives back a reservation.
///
/// # Safety
/// It is not used any more.
pub unsafe fn release(start: *mut c_void, _length: usize) {
    // SAFETY: a reservation that is not used: see "# Safety".
    unsafe { VirtualFree(start, 0, RELEASE) };
}

/// Gives back the memory of a reservation of `length` bytes and keeps its addresses, any use of which then faults.
///
/// # Safety
/// Nothing that is there is needed.
#[cfg(debug_assertions)]
pub unsafe fn forbid(start: *mut c_void, length: usize) {
    // SAFETY: a reservation that is not needed: see "# Safety".
    unsafe { VirtualFree(start, length, DECOMMIT) };
}

/// Does nothing: pages are small.
///
/// # Safety
/// None.
pub unsafe fn use_small_pages(_start: *mut c_void, _length: usize) {}

/// Returns `false`: pages are not given back one by one.
///
/// # Safety
/// None.
pub unsafe fn discard(_start: *mut c_void, _length: usize) -> bool {
    false
}

/// Returns `false`, so that no pages are given back.
pub fn is_private_and_anonymous(_addresses: &Range<usize>) -> bool {
    false
}

/// Returns `None`: which pages are in memory is not asked.
pub fn resident_pages(_start: usize, _pages: usize) -> Option<usize> {
    None
}

/// Returns a text of C, such as a path, as Rust's: it is UTF-8, and what is not is replaced.
pub fn text(text: &CStr) -> Cow<'_, OsStr> {
    match text.to_string_lossy() {
        Cow::Borrowed(text) => Cow::Borrowed(OsStr::new(text)),
        Cow::Owned(text) => Cow::Owned(OsString::from(text)),
    }
}

/// Checks that a folder exists. Whether files can be made in it is found out when they are.
///
/// # Errors
/// If it does not.
pub fn check_writable_folder(folder: &Path) -> io::Result<()> {
    if fs::metadata(folder)?.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

/// Nothing compresses.
#[derive(Clone, Copy, Debug)]
pub enum Gzip {}

impl Gzip {
    /// Returns `None`.
    pub fn find() -> Option<Self> {
        None
    }

    /// Cannot be called.
    ///
    /// # Errors
    /// None.
    pub fn write(self, _file: File, _text: &[u8]) -> io::Result<()> {
        match self {}
    }
}
