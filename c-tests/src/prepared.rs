//! A folder with programs that were compiled here and run on another machine, which builds llama.cpp itself.
//!
//! ```text
//!  bin        the programs, and the tool
//!  lib        lastuse's libraries, where the tool finds them
//!  llama.cpp  its sources, with those of ggml's base library and of the backends that are tested
//!  build      where the other machine builds it
//! ```

use std::path::{Path, PathBuf};

/// The folder. It may lie anywhere.
#[derive(Clone, Debug)]
pub struct Prepared {
    folder: PathBuf,
}

impl Prepared {
    /// The folder, which need not be there yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Returns the folder, to which reports, models and captures are written.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of a program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    /// Returns the folder of the sources of llama.cpp.
    pub fn llama_sources(&self) -> PathBuf {
        self.folder.join("llama.cpp")
    }

    /// Returns the folder of the libraries of llama.cpp and of ggml, once they are built.
    pub fn llama_libraries(&self) -> PathBuf {
        self.folder.join("build/bin")
    }

    /// Returns lastuse's library, the guard's, and that of dry runs.
    pub fn lastuse_libraries(&self) -> [PathBuf; 3] {
        ["liblastuse.so", "liblastuse_guard.so", "liblastuse_measure.so"].map(|name| self.folder.join("lib").join(name))
    }
}
