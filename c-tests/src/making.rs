//! A folder to build a program in, so that no test runs a partly written program: several threads and processes build
//! and run programs of one name at a time.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use lastuse_vendor::target_folder;

use crate::Result;

/// A temporary folder for one build, removed when dropped.
#[derive(Debug)]
pub struct Making {
    folder: PathBuf,
    name: String,
}

impl Making {
    /// Creates the folder for the program `name`.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn new(name: &str) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = programs().join(format!("{name}.{}.{number}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self { folder, name: name.to_owned() })
    }

    /// Returns the path of an object file.
    pub fn object(&self, label: &str) -> PathBuf {
        self.folder.join(label).with_extension("o")
    }

    /// Returns the path of the program until it is finished.
    pub fn program(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    /// Moves the program to its final path. A process that runs the program of this path is not affected.
    ///
    /// # Errors
    /// When it cannot be moved.
    pub fn finish(self) -> Result<PathBuf> {
        let path = programs().join(&self.name);
        fs::rename(self.program(), &path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(Path::new(&self.folder));
    }
}

/// The folder of finished programs.
fn programs() -> PathBuf {
    target_folder().join("c-tests")
}
