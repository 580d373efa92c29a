//! Compression by the system, if it can do that.

use std::fmt;
use std::sync::OnceLock;

use crate::ggml::platform::{Gzip, NO_GZIP};

/// The system cannot compress.
#[derive(Clone, Copy, Debug)]
pub struct ZlibUnavailable;

impl fmt::Display for ZlibUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NO_GZIP)
    }
}

/// Returns what compresses, which is searched for once.
///
/// # Errors
/// [`ZlibUnavailable`].
pub fn compressor() -> Result<Gzip, ZlibUnavailable> {
    static FOUND: OnceLock<Option<Gzip>> = OnceLock::new();
    FOUND.get_or_init(Gzip::find).ok_or(ZlibUnavailable)
}
