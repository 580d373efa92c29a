//! Compression by the zlib of the system, if there is one: lastuse itself does not link zlib.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd;

use super::open_zlib;

/// Level 3: half the work of zlib's default level, for files a tenth larger.
const MODE: &CStr = c"wb3";

/// Bytes that are compressed at once: a call accepts less than 4 GiB.
const PART: usize = 1 << 20;

type Open = unsafe extern "C" fn(c_int, *const c_char) -> *mut c_void;
type Put = unsafe extern "C" fn(*mut c_void, *const c_void, c_uint) -> c_int;
type Close = unsafe extern "C" fn(*mut c_void) -> c_int;

/// The functions of zlib that write files.
#[derive(Clone, Copy, Debug)]
pub struct Gzip {
    open: Open,
    put: Put,
    close: Close,
}

impl Gzip {
    /// Loads zlib, which stays loaded until the process ends; `None` if there is none.
    pub fn find() -> Option<Self> {
        let library = open_zlib()?;
        let symbol = |name: &CStr| library.symbol(name);
        let (open, put, close) = (symbol(c"gzdopen"), symbol(c"gzwrite"), symbol(c"gzclose"));
        library.keep();
        Some(Self {
            // SAFETY: null becomes `None`, else the function of that name has this type.
            open: unsafe { std::mem::transmute::<*const c_void, Option<Open>>(open) }?,
            // SAFETY: as above.
            put: unsafe { std::mem::transmute::<*const c_void, Option<Put>>(put) }?,
            // SAFETY: as above.
            close: unsafe { std::mem::transmute::<*const c_void, Option<Close>>(close) }?,
        })
    }

    /// Compresses `text` into `file`, and closes the file.
    ///
    /// # Errors
    /// If there is no memory, or the file cannot be written.
    pub fn write(self, file: File, text: &[u8]) -> io::Result<()> {
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
