//! The folder of the dumps: one folder for each run, with its arrays and an index of them.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::overwritten::Change;
use super::selection::Selected;
use super::values::{Values, shape};
use crate::formats::json::JsonObject;
use crate::formats::npy::header;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::observe::whole_file::{NotWritten, writable_folder, write_whole};

/// The file in the folder of a run that describes the others: one JSON object per line.
const INDEX: &str = "index.jsonl";

/// A folder for dumps.
#[derive(Debug)]
pub struct DumpFolder {
    path: PathBuf,
    /// The number of the next run, unless its folder exists.
    next: AtomicU64,
}

/// The folder of one run.
#[derive(Debug)]
pub struct RunFolder<'f> {
    folder: &'f DumpFolder,
    path: PathBuf,
    number: u64,
    index: String,
}

impl DumpFolder {
    /// Creates the folder if it is missing.
    ///
    /// # Errors
    /// [`NotWritten`].
    pub fn new(path: &Path) -> Result<Self, NotWritten> {
        let path = writable_folder(path).map_err(|error| NotWritten::to_folder(path, &error))?;
        Ok(Self { path, next: AtomicU64::new(1) })
    }

    /// The absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the folder of a run, with the next number that no folder has: earlier dumps, and those of other
    /// processes, are kept.
    ///
    /// # Errors
    /// [`NotWritten`].
    pub fn begin_run(&self) -> Result<RunFolder<'_>, NotWritten> {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let path = self.path.join(run_name(number));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(RunFolder { folder: self, path, number, index: String::new() }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    // The next run has this number.
                    self.next.fetch_min(number, Ordering::Relaxed);
                    return Err(NotWritten::to_folder(&self.path, &error));
                }
            }
        }
    }
}

impl RunFolder<'_> {
    /// The number of the run, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the array of a tensor.
    ///
    /// # Errors
    /// If its file cannot be written; nothing of it remains then.
    pub fn write(&mut self, runtime: &Runtime, one: &Selected<'_>, values: &Values, change: &Change) -> io::Result<()> {
        let name = file_name(one.list.member(), one.index, &one.tensor.name());
        write_whole(&self.path.join(&name), |mut file| {
            file.write_all(&header(values.element, &values.shape))?;
            file.write_all(&values.bytes)
        })?;
        let file = format!("{}/{name}", run_name(self.number));
        self.add_line(runtime, one, |line| {
            line.text("dtype", &values.element.name()).text("file", &file);
            if let Change::InPlace(by) = change {
                line.text("changed_by", by);
            }
        });
        Ok(())
    }

    /// Records that a tensor is not written, since the node `by` has written over it.
    pub fn skip(&mut self, runtime: &Runtime, one: &Selected<'_>, by: &str) {
        self.add_line(runtime, one, |line| _ = line.value("file", "null").text("overwritten_by", by));
    }

    fn add_line(&mut self, runtime: &Runtime, one: &Selected<'_>, fill: impl FnOnce(&mut JsonObject<'_>)) {
        let mut text = String::new();
        let mut line = JsonObject::begin(&mut text);
        let ne = one.tensor.ne().map(i64::cast_unsigned);
        line.number("run", self.number).value(one.list.member(), one.index).text("name", &one.tensor.name());
        line.text("op", &runtime.description(one.tensor)).text("type", &runtime.element_name(one.tensor));
        line.numbers("ne", ne).numbers("shape", shape(one.tensor.ne()));
        fill(&mut line);
        line.end();
        self.index.push_str(&text);
        self.index.push('\n');
    }

    /// Writes the index. Removes the folder if it has no file.
    ///
    /// # Errors
    /// If the index cannot be written.
    pub fn finish(self) -> io::Result<()> {
        if self.index.is_empty() {
            self.folder.next.fetch_min(self.number, Ordering::Relaxed);
            return fs::remove_dir(&self.path);
        }
        write_whole(&self.path.join(INDEX), |mut file| file.write_all(self.index.as_bytes()))
    }
}

fn run_name(number: u64) -> String {
    format!("run-{number:05}")
}

/// Returns the name of a file for the tensor with this position and name. Characters that are special in paths or in a
/// shell are replaced by `_`, so names never lead out of the folder; the position makes them unique.
fn file_name(member: &str, index: usize, name: &str) -> String {
    let mut file = format!("{member}-{index:05}");
    if !name.is_empty() {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        let plain: String = name.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
        // Writing to memory cannot fail.
        let _ = write!(file, "-{plain}");
    }
    file + ".npy"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_plain() {
        assert_eq!(file_name("node", 12, "l_out-0"), "node-00012-l_out-0.npy");
        assert_eq!(file_name("node", 3, "kq (view) 100%"), "node-00003-kq__view__100_.npy");
        assert_eq!(file_name("leaf", 0, "../../etc/passwd"), "leaf-00000-.._.._etc_passwd.npy");
        assert_eq!(file_name("node", 123_456, "Größe\n"), "node-123456-Gr__e_.npy");
        assert_eq!(file_name("node", 1, ""), "node-00001.npy");
    }

    #[test]
    fn numbers_of_runs_are_never_used_twice() {
        let path = std::env::temp_dir().join(format!("lastuse-{}-dump-folder", std::process::id()));
        let folders = [(); 2].map(|()| DumpFolder::new(&path).expect("it can be created"));
        let run = |folder: usize| {
            let mut run = folders[folder].begin_run().expect("it can be written");
            run.index.push('x');
            let number = run.number();
            run.finish().expect("it can be written");
            number
        };
        assert_eq!([run(0), run(0), run(1), run(0)], [1, 2, 3, 4]);
        let empty = folders[0].begin_run().expect("it can be written");
        assert_eq!(empty.number(), 5);
        empty.finish().expect("it can be removed");
        assert_eq!(run(1), 5, "a run without files has no folder");
        fs::remove_dir_all(&path).expect("it exists");
        let gone = folders[0].begin_run().expect_err("the folder is gone").to_string();
        assert!(gone.starts_with(&format!("cannot write to the folder {}: ", path.display())), "{gone}");
    }

    #[test]
    fn file_in_place_of_the_folder_is_an_error() {
        let error = DumpFolder::new(Path::new("/dev/null/x")).expect_err("no folder").to_string();
        assert!(error.starts_with("cannot write to the folder /dev/null/x: "), "{error}");
    }
}
