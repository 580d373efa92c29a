//! A place to make a program in, so that nobody ever meets half a program: tests make programs of the same name at the
//! same time, in several threads and processes, and run them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use lastuse_vendor::target_folder;

use crate::Result;

/// A folder of one's own, gone when dropped.
#[derive(Debug)]
pub struct Making {
    folder: PathBuf,
    name: String,
}

impl Making {
    /// A place to make the program `name` in.
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

    /// Where an object file goes.
    pub fn object(&self, label: &str) -> PathBuf {
        self.folder.join(label).with_extension("o")
    }

    /// Where the program goes until it is finished.
    pub fn program(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    /// Moves the program to where it is run from; one that is there and running goes on undisturbed.
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

/// Where finished programs are.
fn programs() -> PathBuf {
    target_folder().join("c-tests")
}
