//! The captured graphs of a program.

use std::io;
use std::path::{Path, PathBuf};

use crate::launch::NotStarted;

/// The folder that the graphs of a program are captured to.
pub struct Captures {
    folder: PathBuf,
    /// The value of LASTUSE_CAPTURE: the folder, or a pattern for the names of its files.
    pub names: PathBuf,
}

impl Captures {
    /// Creates the folder, and checks that it is writable. The path is absolute, since the program may change its working
    /// directory.
    pub fn new(path: &Path) -> Result<Self, NotStarted> {
        let pattern = path.file_name().filter(|name| name.to_string_lossy().contains("%s"));
        let folder = if pattern.is_some() { path.parent().unwrap_or(path) } else { path };
        let folder = if folder == Path::new("") { Path::new(".") } else { folder };
        let failed = |error: io::Error| NotStarted::failed(format!("{}: cannot be written: {error}", folder.display()));
        let made = std::fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
        let made = made.and_then(|folder| tempfile::tempfile_in(&folder).map(|_| folder)).map_err(failed)?;
        let names = pattern.map_or_else(|| made.clone(), |pattern| made.join(pattern));
        Ok(Self { folder: made, names })
    }

    /// Returns the graphs in the folder, including those of earlier runs.
    pub fn files(&self) -> Result<Vec<PathBuf>, String> {
        let failed = |error: io::Error| format!("{}: {error}", self.folder.display());
        let entries: Result<Vec<_>, _> = std::fs::read_dir(&self.folder).map_err(failed)?.collect();
        let mut files: Vec<PathBuf> = entries.map_err(failed)?.iter().map(std::fs::DirEntry::path).collect();
        let is_graph = |file: &PathBuf| {
            let name = file.to_string_lossy();
            name.ends_with(".jsonl") || name.ends_with(".jsonl.gz")
        };
        files.retain(is_graph);
        files.sort();
        Ok(files)
    }
}
