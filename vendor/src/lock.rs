//! Locks that processes hold on folders.

use std::fs::{self, File};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::Result;

/// The lock on a folder, until it is dropped.
#[derive(Debug)]
pub struct FolderLock {
    _file: Flock<File>,
}

impl FolderLock {
    /// Waits until no other process has the lock on `folder`, which is made if it is missing. The standard error names the
    /// lock if another has it.
    ///
    /// # Errors
    /// When the folder or the file `lock` in it cannot be written.
    pub fn wait(folder: &Path) -> Result<Self> {
        let path = folder.join("lock");
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(folder).map_err(failed)?;
        let file = File::create(&path).map_err(failed)?;
        let locked = Flock::lock(file, FlockArg::LockExclusiveNonblock).or_else(|(file, error)| {
            if error == Errno::EWOULDBLOCK {
                eprintln!("waiting for another process that holds {}", path.display());
            }
            Flock::lock(file, FlockArg::LockExclusive)
        });
        locked.map(|file| Self { _file: file }).map_err(|(_, error)| failed(error.into()))
    }
}
