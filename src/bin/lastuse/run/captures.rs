//! The captured graphs of a program.

use std::io;
use std::path::{Path, PathBuf};

use crate::endings::by_ending;
use crate::graph_files::graphs_in;
use crate::launch::NotStarted;
use crate::path_errors::unwritable;

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
        // Files of another name would not be found as graphs.
        let checked = match (&pattern, path.extension()) {
            (Some(_), _) => by_ending(path, &[(".jsonl", ()), (".jsonl.gz", ())]),
            (None, Some(ending)) if ending == "jsonl" || ending == "gz" => {
                Err(format!("{:?} has no %s: name a folder, or files such as graphs/%s.jsonl.gz", path.display()))
            }
            (None, _) => Ok(()),
        };
        checked.map_err(|why| NotStarted::failed(format!("--capture: {why}")))?;
        let failed = |error: io::Error| {
            NotStarted::failed(format!("{}: cannot be written: {}", folder.display(), unwritable(folder, &error)))
        };
        let made = std::fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
        let made = made.and_then(|folder| tempfile::tempfile_in(&folder).map(|_| folder)).map_err(failed)?;
        let names = pattern.map_or_else(|| made.clone(), |pattern| made.join(pattern));
        Ok(Self { folder: made, names })
    }

    /// Returns the graphs in the folder, including those of earlier runs.
    pub fn files(&self) -> Result<Vec<PathBuf>, String> {
        graphs_in(&self.folder).map_err(|error| format!("{}: {error}", self.folder.display()))
    }
}
