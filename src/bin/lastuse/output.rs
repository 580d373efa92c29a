//! Output files.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::path_errors::unwritable;
use super::print::print;

/// A file that is known to be writable, or the standard output. A file keeps its content until it is written.
pub enum Output {
    Standard,
    File { file: File, path: PathBuf, is_new: bool },
}

impl Output {
    /// Opens a file for writing; "-" is the standard output.
    pub fn open(path: &Path) -> Result<Self, String> {
        if path == Path::new("-") {
            return Ok(Self::Standard);
        }
        let is_new = !path.exists();
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let failed = |error| format!("{}: cannot be written: {}", path.display(), unwritable(path, &error));
        let file = opened.map_err(failed)?;
        Ok(Self::File { file, path: path.to_owned(), is_new })
    }

    /// Replaces the content of the file.
    pub fn write(self, bytes: &[u8]) -> Result<(), String> {
        match self {
            Self::Standard => print(bytes),
            Self::File { mut file, path, .. } => {
                // A device has no length to set.
                let is_regular = file.metadata().is_ok_and(|data| data.is_file());
                let emptied = if is_regular { file.set_len(0) } else { Ok(()) };
                let written = emptied.and_then(|()| file.write_all(bytes));
                written.map_err(|error| format!("{}: cannot be written: {error}", path.display()))
            }
        }
    }

    /// Removes the file if opening it has created it.
    pub fn discard(self) {
        if let Self::File { path, is_new: true, .. } = self {
            // An empty file that stays is not worth a second message.
            let _ = fs::remove_file(path);
        }
    }
}
