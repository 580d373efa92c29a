//! The folder and the names of captures.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::ggml::observe::file_names::{split_around, without_ending};
use crate::ggml::observe::whole_file::{NotWritten, writable_folder};

/// The placeholder for the name of a graph in the name of its file.
const NAME: &str = "%s";

/// Extensions of graph files: a path with one of them and without the placeholder names a single file.
const ENDINGS: [&str; 2] = [".jsonl", ".jsonl.gz"];

/// The extension of compressed files.
const COMPRESSED: &str = ".gz";

/// A folder, and a pattern for the names of the files in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    folder: PathBuf,
    /// The part of a file name before the name of its graph.
    before: OsString,
    /// The part after it.
    after: OsString,
}

impl Destination {
    /// Parses `path`: a folder, for files "graph-NAME.jsonl", or a folder and a file name with "%s" in place of the
    /// graph's name. Names that end in ".gz" are for compressed files. The folder is created if it is missing.
    ///
    /// # Errors
    /// [`NotWritten`].
    pub fn new(path: &OsStr) -> Result<Self, NotWritten> {
        let destination = Self::parse(Path::new(path))?;
        let refused = |error| NotWritten::to_folder(&destination.folder, &error);
        let folder = writable_folder(&destination.folder).map_err(refused)?;
        Ok(Self { folder, ..destination })
    }

    fn parse(path: &Path) -> Result<Self, NotWritten> {
        let name = path.file_name().unwrap_or_default();
        let Some((before, after)) = split_around(name, NAME) else {
            if ENDINGS.iter().any(|ending| without_ending(name, ending).is_some()) && !path.is_dir() {
                let path = path.display();
                return Err(NotWritten(format!(
                    "{path} is one file, and each graph gets its own: name a folder, or put %s where their names go"
                )));
            }
            return Ok(Self { folder: path.to_owned(), before: "graph-".into(), after: ".jsonl".into() });
        };
        let [before, after] = [before, after].map(OsStr::to_owned);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(Self { folder: folder.to_owned(), before, after })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns `true` if the files are compressed.
    pub fn is_compressed(&self) -> bool {
        without_ending(&self.after, COMPRESSED).is_some()
    }

    /// Returns this destination without compression.
    pub fn uncompressed(&self) -> Self {
        let after = without_ending(&self.after, COMPRESSED).unwrap_or(&self.after).to_owned();
        Self { after, ..self.clone() }
    }

    /// Returns the path of the graph whose text has the hash `content`.
    pub fn file(&self, content: u64) -> PathBuf {
        let mut name = self.before.clone();
        name.push(format!("{content:016x}"));
        name.push(&self.after);
        self.folder.join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> String {
        let destination = Destination::parse(Path::new(path)).expect("a destination");
        destination.file(0xAB).to_str().expect("UTF-8").to_owned()
    }

    #[test]
    fn folder_is_for_uncompressed_files() {
        assert_eq!(file("graphs"), "graphs/graph-00000000000000ab.jsonl");
        assert_eq!(file("/tmp/graphs/"), "/tmp/graphs/graph-00000000000000ab.jsonl");
        assert_eq!(file("100%sure/graphs.gz"), "100%sure/graphs.gz/graph-00000000000000ab.jsonl");
    }

    #[test]
    fn placeholder_names_the_files() {
        assert_eq!(file("graphs/%s.jsonl.gz"), "graphs/00000000000000ab.jsonl.gz");
        assert_eq!(file("llama-%s-%s.txt"), "./llama-00000000000000ab-%s.txt");
        assert_eq!(file("/%s.jsonl"), "/00000000000000ab.jsonl");
    }

    #[test]
    fn extension_decides_about_compression() {
        let destination = Destination::parse(Path::new("graphs/%s.jsonl.gz")).expect("a destination");
        assert!(destination.is_compressed() && !destination.uncompressed().is_compressed());
        assert_eq!(
            destination.uncompressed(),
            Destination::parse(Path::new("graphs/%s.jsonl")).expect("a destination")
        );
    }

    #[test]
    fn single_file_is_refused() {
        for path in ["graph.jsonl", "graphs/graph.jsonl.gz"] {
            let error = Destination::parse(Path::new(path)).expect_err("one file").to_string();
            assert!(error.starts_with(&format!("{path} is one file")) && error.contains("%s"), "{error}");
        }
    }
}
