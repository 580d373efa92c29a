//! Where captures go.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

/// What stands for the name of a graph in the name of its file.
const NAME: &[u8] = b"%s";

/// How the names of files end that hold a graph: without a graph's own name there can be one only.
const ENDINGS: [&[u8]; 2] = [b".jsonl", b".jsonl.gz"];

/// A folder, and how the files in it are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    folder: PathBuf,
    /// The name of a file before the name of its graph.
    before: OsString,
    /// And after it.
    after: OsString,
}

/// Why there is no such destination.
#[derive(Debug)]
pub enum NoDestination {
    /// This is a file for a single graph.
    OneFile(PathBuf),
    /// The folder cannot be made, or not be written to.
    Folder(PathBuf, io::Error),
}

impl fmt::Display for NoDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneFile(path) => {
                let path = path.display();
                write!(
                    f,
                    "{path} is one file, and each graph gets its own: name a folder, or put %s where their names go"
                )
            }
            Self::Folder(path, error) => write!(f, "cannot write to the folder {}: {error}", path.display()),
        }
    }
}

impl std::error::Error for NoDestination {}

impl Destination {
    /// What a user says: a folder, which gets a file "graph-NAME.jsonl" for each graph, or a folder and how its files are
    /// called, with "%s" where the name of the graph goes. Names that end in ".gz" are for compressed files. The folder
    /// is made if it is missing.
    ///
    /// # Errors
    /// [`NoDestination`].
    pub fn new(said: &OsStr) -> Result<Self, NoDestination> {
        let destination = Self::parse(Path::new(said))?;
        let wrong = |error| NoDestination::Folder(destination.folder.clone(), error);
        // So that a program may go to another folder.
        let folder = std::path::absolute(&destination.folder).map_err(wrong)?;
        fs::create_dir_all(&folder).map_err(wrong)?;
        is_writable(&folder).map_err(wrong)?;
        Ok(Self { folder, ..destination })
    }

    fn parse(said: &Path) -> Result<Self, NoDestination> {
        let name = said.file_name().unwrap_or_default().as_bytes();
        let Some(at) = name.windows(NAME.len()).position(|part| part == NAME) else {
            if ENDINGS.iter().any(|ending| name.ends_with(ending)) && !said.is_dir() {
                return Err(NoDestination::OneFile(said.to_owned()));
            }
            return Ok(Self { folder: said.to_owned(), before: "graph-".into(), after: ".jsonl".into() });
        };
        let (before, after) = (&name[..at], &name[at + NAME.len()..]);
        let [before, after] = [before, after].map(|part| OsStr::from_bytes(part).to_owned());
        let folder = said.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(Self { folder: folder.to_owned(), before, after })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Are the files compressed?
    pub fn is_compressed(&self) -> bool {
        self.after.as_bytes().ends_with(b".gz")
    }

    /// The same without compression.
    pub fn uncompressed(&self) -> Self {
        let after = self.after.as_bytes();
        let after = OsStr::from_bytes(after.strip_suffix(b".gz").unwrap_or(after)).to_owned();
        Self { after, ..self.clone() }
    }

    /// The file of the graph with this content.
    pub fn file(&self, content: u64) -> PathBuf {
        let mut name = self.before.clone();
        name.push(format!("{content:016x}"));
        name.push(&self.after);
        self.folder.join(name)
    }
}

fn is_writable(folder: &Path) -> io::Result<()> {
    let path = std::ffi::CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: a string that ends in NUL.
    let answer = unsafe { libc::access(path.as_ptr(), libc::W_OK | libc::X_OK) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(said: &str) -> String {
        let destination = Destination::parse(Path::new(said)).expect("a destination");
        destination.file(0xAB).to_str().expect("UTF-8").to_owned()
    }

    #[test]
    fn folder_gets_files_of_plain_text() {
        assert_eq!(file("graphs"), "graphs/graph-00000000000000ab.jsonl");
        assert_eq!(file("/tmp/graphs/"), "/tmp/graphs/graph-00000000000000ab.jsonl");
        assert_eq!(file("100%sure/graphs.gz"), "100%sure/graphs.gz/graph-00000000000000ab.jsonl");
    }

    #[test]
    fn files_may_be_named() {
        assert_eq!(file("graphs/%s.jsonl.gz"), "graphs/00000000000000ab.jsonl.gz");
        assert_eq!(file("llama-%s-%s.txt"), "./llama-00000000000000ab-%s.txt");
        assert_eq!(file("/%s.jsonl"), "/00000000000000ab.jsonl");
    }

    #[test]
    fn names_say_whether_files_are_compressed() {
        let destination = Destination::parse(Path::new("graphs/%s.jsonl.gz")).expect("a destination");
        assert!(destination.is_compressed() && !destination.uncompressed().is_compressed());
        assert_eq!(
            destination.uncompressed(),
            Destination::parse(Path::new("graphs/%s.jsonl")).expect("a destination")
        );
    }

    #[test]
    fn one_file_is_not_for_many() {
        for said in ["graph.jsonl", "graphs/graph.jsonl.gz"] {
            let error = Destination::parse(Path::new(said)).expect_err("one file").to_string();
            assert!(error.starts_with(&format!("{said} is one file")) && error.contains("%s"), "{error}");
        }
    }
}
