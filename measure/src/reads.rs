//! The functions that read files: weights are left out, as nothing computes with them.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use libc::{FILE, off_t, size_t, ssize_t};

use crate::contents::{self, KEPT};
use crate::files::next;
use crate::is_active;
use crate::wrapped::{c_name, of_ggml};

/// A file in GGUF: its device, its number there, and where its weights begin.
#[derive(Clone, Copy, Debug)]
struct Model {
    file: [u64; 2],
    weights: u64,
}

static MODELS: Mutex<Vec<Model>> = Mutex::new(Vec::new());

thread_local! {
    /// Whether this thread opens a model.
    static IS_OPENING: Cell<bool> = const { Cell::new(false) };
}

/// Returns the device of a file, its number there and its size, if it is a regular one.
fn facts(file: c_int) -> Option<([u64; 2], u64)> {
    // SAFETY: plain old data; all zero is a valid value.
    let mut facts: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `facts` is writable.
    let is_there = unsafe { libc::fstat(file, &raw mut facts) } == 0;
    let is_regular = facts.st_mode & libc::S_IFMT == libc::S_IFREG;
    (is_there && is_regular).then(|| ([facts.st_dev, facts.st_ino], u64::try_from(facts.st_size).unwrap_or(0)))
}

/// Returns how many bytes a read at `position` leaves out: all of them, as far as the file has them, if it reads weights, or reads
/// into a stand-in.
fn left_out(file: c_int, position: off_t, to: *const c_void, size: usize) -> Option<usize> {
    if !is_active() || size <= KEPT || IS_OPENING.get() {
        return None;
    }
    let position = u64::try_from(position).ok()?;
    let (file, length) = facts(file)?;
    let is_stand_in = contents::contains(to.addr());
    let models = MODELS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_of = |model: &Model| model.file == file && position >= model.weights;
    if !is_stand_in && !models.iter().any(is_of) {
        return None;
    }
    let size = size.min(usize::try_from(length.saturating_sub(position)).unwrap_or(usize::MAX));
    if is_stand_in {
        let addresses: Range<usize> = to.addr()..to.addr() + size;
        contents::leave_out(&addresses);
    }
    Some(size)
}

/// Wraps functions of ggml that open a model: notes where its weights begin.
macro_rules! wrap_models {
    ($($name:ident($source:ident: $type:ty) $open:expr;)+) => {
        $(
            /// Wraps ggml's function.
            ///
            /// # Safety
            /// The requirements of ggml's function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($source: $type, params: GgufParams) -> *mut c_void {
                const NAME: &CStr = c_name(concat!(stringify!($name), "\0"));
                // SAFETY: its type in gguf.h.
                let function: unsafe extern "C" fn($type, GgufParams) -> *mut c_void = unsafe { of_ggml(NAME) };
                // What ggml reads of a model itself, it needs.
                let before = IS_OPENING.replace(true);
                // SAFETY: the caller's arguments, forwarded.
                let model = unsafe { function($source, params) };
                IS_OPENING.set(before);
                if is_active() && !model.is_null() {
                    // SAFETY: a file that the caller has open, or its name.
                    let file: Option<[u64; 2]> = unsafe { $open };
                    note_model(model, file);
                }
                model
            }
        )+
    };
}

/// `struct gguf_init_params` of gguf.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GgufParams {
    no_alloc: bool,
    context: *mut c_void,
}

fn note_model(model: *mut c_void, file: Option<[u64; 2]>) {
    let Some(file) = file else { return };
    // SAFETY: its type in gguf.h.
    let offset: unsafe extern "C" fn(*const c_void) -> size_t = unsafe { of_ggml(c"gguf_get_data_offset") };
    // SAFETY: a live model.
    let weights = unsafe { offset(model) } as u64;
    MODELS.lock().unwrap_or_else(PoisonError::into_inner).push(Model { file, weights });
}

/// Returns the device of the file with this name, and its number there.
///
/// # Safety
/// `path` is a string that ends in NUL.
unsafe fn file_at(path: *const c_char) -> Option<[u64; 2]> {
    // SAFETY: a string that ends in NUL: see "# Safety".
    let file = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, libc::O_RDONLY | libc::O_CLOEXEC) };
    let file = c_int::try_from(file).ok().filter(|&file| file >= 0)?;
    let found = facts(file).map(|(file, _)| file);
    // SAFETY: a file that was opened above.
    unsafe { libc::close(file) };
    found
}

wrap_models! {
    gguf_init_from_file(path: *const c_char) file_at(path);
    gguf_init_from_file_ptr(stream: *mut FILE) facts(libc::fileno(stream)).map(|(file, _)| file);
}

/// Reads from a stream as `fread` does, if that leaves the bytes out.
///
/// # Safety
/// The requirements of `fread`.
unsafe fn skip(to: *mut c_void, size: size_t, count: size_t, stream: *mut FILE) -> Option<size_t> {
    let bytes = size.checked_mul(count).filter(|&bytes| is_active() && bytes > KEPT)?;
    // SAFETY: an open stream.
    let file = unsafe { libc::fileno(stream) };
    facts(file)?;
    // SAFETY: an open stream.
    let position = unsafe { libc::ftello(stream) };
    // At the end of the file it is read, so that the stream notes that.
    let skipped = left_out(file, position, to, bytes).filter(|&skipped| skipped == bytes)?;
    // SAFETY: an open stream of a regular file.
    unsafe { libc::fseeko(stream, off_t::try_from(skipped).ok()?, libc::SEEK_CUR) };
    Some(skipped / size)
}

type Read = unsafe extern "C" fn(*mut c_void, size_t, size_t, *mut FILE) -> size_t;
type CheckedRead = unsafe extern "C" fn(*mut c_void, size_t, size_t, size_t, *mut FILE) -> size_t;

/// Wraps functions of the C library that read a stream.
macro_rules! wrap_streams {
    ($($name:ident($to:ident [$($room:ident)?] $size:ident, $count:ident, $stream:ident): $type:ty;)+) => {
        $(
            /// Wraps the C library's function.
            ///
            /// # Safety
            /// The requirements of that function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                $to: *mut c_void,
                $($room: size_t,)?
                $size: size_t,
                $count: size_t,
                $stream: *mut FILE,
            ) -> size_t {
                static NEXT: OnceLock<usize> = OnceLock::new();
                const NAME: &CStr = c_name(concat!(stringify!($name), "\0"));
                // SAFETY: the caller's arguments.
                unsafe { skip($to, $size, $count, $stream) }.unwrap_or_else(|| {
                    // SAFETY: its type in the C library.
                    let next: $type = unsafe { next(&NEXT, NAME) };
                    // SAFETY: the caller's arguments, forwarded.
                    unsafe { next($to, $($room,)? $size, $count, $stream) }
                })
            }
        )+
    };
}

wrap_streams! {
    fread(to [] size, count, stream): Read;
    fread_unlocked(to [] size, count, stream): Read;
    __fread_chk(to [room] size, count, stream): CheckedRead;
    __fread_unlocked_chk(to [room] size, count, stream): CheckedRead;
}

/// # Safety
/// The requirements of that function of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(file: c_int, to: *mut c_void, size: size_t) -> ssize_t {
    if is_active() && size > KEPT && facts(file).is_some() {
        // SAFETY: takes numbers.
        let position = unsafe { libc::lseek(file, 0, libc::SEEK_CUR) };
        if let Some(skipped) = left_out(file, position, to, size) {
            // SAFETY: takes numbers.
            unsafe { libc::lseek(file, off_t::try_from(skipped).unwrap_or(0), libc::SEEK_CUR) };
            return ssize_t::try_from(skipped).unwrap_or(0);
        }
    }
    // SAFETY: the caller's arguments, forwarded.
    narrow(unsafe { libc::syscall(libc::SYS_read, file, to, size) })
}

/// # Safety
/// The requirements of that function of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __read_chk(file: c_int, to: *mut c_void, size: size_t, _room: size_t) -> ssize_t {
    // SAFETY: the caller's arguments, forwarded.
    unsafe { read(file, to, size) }
}

/// # Safety
/// The requirements of that function of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pread(file: c_int, to: *mut c_void, size: size_t, position: off_t) -> ssize_t {
    match left_out(file, position, to, size) {
        Some(skipped) => ssize_t::try_from(skipped).unwrap_or(0),
        // SAFETY: the caller's arguments, forwarded.
        None => narrow(unsafe { libc::syscall(libc::SYS_pread64, file, to, size, position) }),
    }
}

/// # Safety
/// The requirements of that function of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pread64(file: c_int, to: *mut c_void, size: size_t, position: off_t) -> ssize_t {
    // SAFETY: the caller's arguments, forwarded.
    unsafe { pread(file, to, size, position) }
}

/// # Safety
/// The requirements of that function of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pread64_chk(
    file: c_int,
    to: *mut c_void,
    size: size_t,
    position: off_t,
    _room: size_t,
) -> ssize_t {
    // SAFETY: the caller's arguments, forwarded.
    unsafe { pread(file, to, size, position) }
}

fn narrow(result: c_long) -> ssize_t {
    ssize_t::try_from(result).unwrap_or(-1)
}
