//! Writes files completely or not at all, also when several processes write to the same folder.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::ggml::platform::check_writable_folder;

/// Why a file or a folder cannot be written: a message that names it.
#[derive(Debug)]
pub struct NotWritten(pub String);

impl NotWritten {
    /// The system refuses to write a file.
    pub fn to_file(path: &Path, error: &io::Error) -> Self {
        Self(format!("cannot write to {}: {error}", path.display()))
    }

    /// The system refuses to write to a folder.
    pub fn to_folder(path: &Path, error: &io::Error) -> Self {
        Self(format!("cannot write to the folder {}: {error}", path.display()))
    }
}

impl fmt::Display for NotWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Writes a file: `fill` gets a new one, which then takes the name `path`.
///
/// # Errors
/// If the file cannot be written; nothing of it remains then.
pub fn write_whole(path: &Path, fill: impl FnOnce(File) -> io::Result<()>) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let (temporary, file) = new_file(folder)?;
    let done = fill(file).and_then(|()| fs::rename(&temporary, path));
    if done.is_err() {
        // Its folder may have been removed.
        let _ = fs::remove_file(&temporary);
    }
    done
}

/// Creates a hidden file with a unique name. Processes in other containers may have the same number, and files of
/// crashed processes remain, so the name contains the time too.
fn new_file(folder: &Path) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let path = folder.join(format!(".lastuse-{process}-{number}-{time}.tmp"));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => return Ok((path, file)),
        }
    }
}

/// Creates a folder if it is missing, and checks that it is writable. Returns its absolute path, since the program may
/// change its working directory.
///
/// # Errors
/// If it cannot be created or written to.
pub fn writable_folder(folder: &Path) -> io::Result<PathBuf> {
    let folder = std::path::absolute(folder)?;
    fs::create_dir_all(&folder)?;
    check_writable_folder(&folder).map(|()| folder)
}
