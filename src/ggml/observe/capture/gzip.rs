//! Compression by the zlib of the system, if there is one: lastuse itself does not link zlib.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::OnceLock;
use std::{fmt, io};

/// The name of zlib on every Linux.
const ZLIB: &CStr = c"libz.so.1";

/// Level 3: half the work of zlib's default level, for files a tenth larger.
const MODE: &CStr = c"wb3";

/// Bytes that are compressed at once: a call accepts less than 4 GiB.
const PART: usize = 1 << 20;

/// zlib cannot be loaded.
#[derive(Clone, Copy, Debug)]
pub struct ZlibUnavailable;

impl fmt::Display for ZlibUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be loaded; install zlib to have them compressed", ZLIB.to_string_lossy())
    }
}

type Open = unsafe extern "C" fn(c_int, *const c_char) -> *mut c_void;
type Put = unsafe extern "C" fn(*mut c_void, *const c_void, c_uint) -> c_int;
type Close = unsafe extern "C" fn(*mut c_void) -> c_int;

/// The functions of zlib that write files.
#[derive(Clone, Copy, Debug)]
pub struct SystemZlib {
    open: Open,
    put: Put,
    close: Close,
}

/// Loads zlib on the first call.
///
/// # Errors
/// [`ZlibUnavailable`].
pub fn compressor() -> Result<SystemZlib, ZlibUnavailable> {
    static FOUND: OnceLock<Option<SystemZlib>> = OnceLock::new();
    FOUND.get_or_init(SystemZlib::find).ok_or(ZlibUnavailable)
}

impl SystemZlib {
    /// Loads zlib, which stays loaded until the process ends.
    fn find() -> Option<Self> {
        // SAFETY: zlib runs no code when it is loaded.
        let library = unsafe { libc::dlopen(ZLIB.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return None;
        }
        // SAFETY: the library is loaded, and the names end in NUL.
        let symbol = |name: &CStr| unsafe { libc::dlsym(library, name.as_ptr()) };
        let (open, put, close) = (symbol(c"gzdopen"), symbol(c"gzwrite"), symbol(c"gzclose"));
        Some(Self {
            // SAFETY: null becomes `None`, else the function of that name has this type.
            open: unsafe { std::mem::transmute::<*mut c_void, Option<Open>>(open) }?,
            // SAFETY: as above.
            put: unsafe { std::mem::transmute::<*mut c_void, Option<Put>>(put) }?,
            // SAFETY: as above.
            close: unsafe { std::mem::transmute::<*mut c_void, Option<Close>>(close) }?,
        })
    }

    /// Compresses `text` into `file`, and closes the file.
    ///
    /// # Errors
    /// If there is no memory, or the file cannot be written.
    pub fn write(self, file: OwnedFd, text: &[u8]) -> io::Result<()> {
        let number = file.into_raw_fd();
        // SAFETY: an open file, which the stream then owns.
        let stream = unsafe { (self.open)(number, MODE.as_ptr()) };
        if stream.is_null() {
            // SAFETY: an open file that no stream owns.
            unsafe { libc::close(number) };
            return Err(io::Error::from(io::ErrorKind::OutOfMemory));
        }
        let is_whole = text.chunks(PART).all(|part| {
            let length = c_uint::try_from(part.len()).expect("a part is small");
            // SAFETY: an open stream, and a buffer of `length` bytes.
            let put = unsafe { (self.put)(stream, part.as_ptr().cast(), length) };
            usize::try_from(put).is_ok_and(|put| put == part.len())
        });
        let error = io::Error::last_os_error();
        // SAFETY: an open stream, which is not used afterwards. This flushes it.
        let closed = unsafe { (self.close)(stream) };
        match (is_whole, closed) {
            (true, 0) => Ok(()),
            (true, _) => Err(io::Error::last_os_error()),
            (false, _) => Err(error),
        }
    }
}
