//! Where a picture goes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that is known to be writable, or the standard output. Until there is a picture the file stays as it is.
pub enum Output {
    Standard,
    File { file: File, path: PathBuf, is_new: bool },
}

impl Output {
    /// Makes sure that the file can be written; "-" is the standard output.
    pub fn open(path: &Path) -> Result<Self, String> {
        if path == Path::new("-") {
            return Ok(Self::Standard);
        }
        let is_new = !path.exists();
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(|error| format!("{}: cannot be written: {error}", path.display()))?;
        Ok(Self::File { file, path: path.to_owned(), is_new })
    }

    /// Writes all of it. That the reader of a pipe has seen enough is no failure.
    pub fn write(self, bytes: &[u8]) -> Result<(), String> {
        match self {
            Self::Standard => match io::stdout().write_all(bytes) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("cannot print: {error}")),
                _ => Ok(()),
            },
            Self::File { mut file, path, .. } => {
                // A device has no length to set.
                let is_regular = file.metadata().is_ok_and(|data| data.is_file());
                let emptied = if is_regular { file.set_len(0) } else { Ok(()) };
                let written = emptied.and_then(|()| file.write_all(bytes));
                written.map_err(|error| format!("{}: cannot be written: {error}", path.display()))
            }
        }
    }

    /// There is no picture: leaves no empty file behind.
    pub fn give_up(self) {
        if let Self::File { path, is_new: true, .. } = self {
            // It is empty; that it stays is no second failure to tell.
            let _ = fs::remove_file(path);
        }
    }
}
