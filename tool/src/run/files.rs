//! The files that a program writes: captured graphs, and values of tensors.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::{Value, json};

use crate::foreign::unwritable;
use crate::input::graphs_in;
use crate::launch::{DumpTotals, NotStarted};
use crate::output::{by_ending, counted};
use crate::settings::checked_pattern;

/// The folder that the graphs of a program are captured to.
#[derive(Clone)]
pub struct Captures {
    folder: PathBuf,
    /// The value of LASTUSE_CAPTURE: the folder, or a pattern for the names of its files.
    pub names: PathBuf,
    /// The graphs that were there before.
    earlier: u64,
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
        let made = fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
        let made = made.and_then(|folder| tempfile::tempfile_in(&folder).map(|_| folder)).map_err(failed)?;
        let names = pattern.map_or_else(|| made.clone(), |pattern| made.join(pattern));
        let captures = Self { folder: made, names, earlier: 0 };
        let earlier = captures.count();
        Ok(Self { earlier, ..captures })
    }

    /// Returns a line for the report: how many graphs were written, and where, and how many were there before.
    pub fn summary(&self) -> String {
        let (new, earlier) = (self.count().saturating_sub(self.earlier), self.earlier);
        let folder = self.folder.display();
        if earlier == 0 {
            return format!("capture: {} in {folder}\n", counted(new, "graph"));
        }
        format!(
            "capture: {} in {folder}, beside {earlier} of earlier runs, which \"explain\" and \"draw\" read too: capture to an \
             empty folder for this run alone\n",
            counted(new, "new graph")
        )
    }

    fn count(&self) -> u64 {
        self.files().map_or(0, |files| files.len() as u64)
    }

    /// Returns the graphs in the folder, including those of earlier runs.
    pub fn files(&self) -> Result<Vec<PathBuf>, String> {
        graphs_in(&self.folder).map_err(|error| format!("{}: {error}", self.folder.display()))
    }
}

/// The folder where none is given.
const DEFAULT_FOLDER: &str = "lastuse-dump";

/// The tensors to dump, and the folder of their files.
pub struct Dumps {
    /// The value of LASTUSE_DUMP.
    pub pattern: String,
    /// The value of LASTUSE_DUMP_DIR.
    pub folder: PathBuf,
}

impl Dumps {
    /// Creates the folder, and checks that it is empty and writable. The path is absolute, since the program may change
    /// its working directory.
    pub fn new(pattern: &str, folder: Option<&Path>) -> Result<Self, NotStarted> {
        let pattern = checked_pattern("--dump", pattern).map_err(NotStarted::failed)?;
        let folder = folder.unwrap_or(Path::new(DEFAULT_FOLDER));
        let failed = |error: io::Error| {
            NotStarted::failed(format!("{}: cannot be written: {}", folder.display(), unwritable(folder, &error)))
        };
        let made = fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
        let made = made.and_then(|folder| tempfile::tempfile_in(&folder).map(|_| folder)).map_err(failed)?;
        if fs::read_dir(&made).map_err(failed)?.next().is_some() {
            let message = "is not empty, and files in it could be taken for those of this run: name an empty \
                           or new folder with --dump-dir";
            return Err(NotStarted::failed(format!("{}: {message}", folder.display())));
        }
        Ok(Self { pattern, folder: made })
    }

    /// Returns lines for the report: how many files were written where, or why none.
    pub fn summary(&self, totals: &DumpTotals) -> String {
        let Self { pattern, folder } = self;
        let (folder, DumpTotals { runs, runs_with_files, written, failed, similar }) = (folder.display(), totals);
        let mut text = match (runs, written) {
            (0, _) => {
                "no tensor was dumped: the program computed no graph by ggml_backend_graph_compute or a scheduler, or \
                       its ggml is not a shared library"
                    .to_owned()
            }
            (_, 0) if *failed > 0 => "no tensor was dumped".to_owned(),
            (runs, 0) => {
                let names = if similar.is_empty() { "none has a name".to_owned() } else { similar.join(", ") };
                format!(
                    "no tensor was dumped: {pattern:?} matches none in {}; names are, for example: {names}",
                    counted(*runs, "run")
                )
            }
            _ => format!(
                "{} of {} in {folder}: each run has an index.jsonl",
                counted(*written, "array"),
                counted(*runs_with_files, "run")
            ),
        };
        if *failed > 0 {
            text += &format!("; {} could not be written: the log has the first reason", counted(*failed, "tensor"));
        }
        format!("dump: {text}\n")
    }

    /// Returns these numbers for the report in JSON.
    pub fn json(&self, totals: &DumpTotals) -> Value {
        json!({
            "pattern": self.pattern,
            "folder": self.folder,
            "runs": totals.runs,
            "runs_with_files": totals.runs_with_files,
            "files": totals.written,
            "failed": totals.failed,
            "similar": totals.similar,
        })
    }
}
