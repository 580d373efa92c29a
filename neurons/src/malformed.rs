//! A defect of a file.

use std::path::{Path, PathBuf};
use std::{fmt, io};

/// Why a file cannot be read, and where that is not obvious, what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

pub type Result<T> = std::result::Result<T, Malformed>;

pub fn malformed<T>(reason: impl Into<String>) -> Result<T> {
    Err(Malformed(reason.into()))
}

/// A file or folder that cannot be read, or has other content than expected, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The file or folder.
    pub path: PathBuf,
    /// The expected and the actual value.
    pub reason: String,
}

impl Unreadable {
    pub(crate) fn new(path: &Path, reason: impl Into<String>) -> Self {
        Self { path: path.to_owned(), reason: reason.into() }
    }

    /// A file that cannot be opened or read.
    pub(crate) fn of_io(path: &Path, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::new(path, "no such file"),
            _ => Self::new(path, error.to_string()),
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

impl std::error::Error for Unreadable {}
