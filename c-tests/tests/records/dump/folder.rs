//! Reads a folder of dumps.

use std::fs;
use std::path::{Path, PathBuf};

use lastuse_neurons::npy::NpyArray;
use lastuse_vendor::target_folder;
use serde_json::Value;

/// Returns an empty folder for the files of a test.
pub fn empty_folder(test: &str) -> PathBuf {
    let path = target_folder().join("c-tests/dump-files").join(test);
    // It may be there from another run.
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("the target folder can be written to");
    path
}

/// A dumped tensor, or one that could not be dumped.
#[derive(Debug)]
pub struct Dumped {
    /// Its line in the index.
    pub line: Value,
    /// The array, if there is one.
    pub array: Option<NpyArray>,
}

impl Dumped {
    pub fn name(&self) -> &str {
        self.line["name"].as_str().expect("a name")
    }

    pub fn run(&self) -> u64 {
        self.line["run"].as_u64().expect("a number")
    }

    pub fn bytes(&self) -> &[u8] {
        &self.array.as_ref().unwrap_or_else(|| panic!("there is no array: {}", self.line)).bytes
    }
}

/// Reads all runs in a folder, and checks that the index and the arrays agree.
pub fn read_dumps(folder: &Path) -> Vec<Dumped> {
    let mut dumps = Vec::new();
    for run in names_in(folder) {
        let index = fs::read_to_string(folder.join(&run).join("index.jsonl")).expect("each run has an index");
        let lines: Vec<Dumped> = index.lines().map(|line| read_line(folder, &run, line)).collect();
        let files = names_in(&folder.join(&run));
        let listed = lines.iter().filter(|dumped| dumped.array.is_some()).count();
        assert_eq!(files.len(), listed + 1, "the index lists all files: {files:?}");
        dumps.extend(lines);
    }
    dumps
}

fn read_line(folder: &Path, run: &str, line: &str) -> Dumped {
    let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    assert_eq!(format!("run-{:05}", line["run"].as_u64().expect("a number")), run);
    assert!(line["node"].is_u64() != line["leaf"].is_u64(), "{line}");
    let array = line["file"].as_str().map(|file| {
        assert!(file.starts_with(&format!("{run}/")) && !file.contains(".."), "{line}");
        let bytes = fs::read(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        NpyArray::read(&bytes).unwrap_or_else(|error| panic!("{file}: {error}"))
    });
    if let Some(array) = &array {
        assert_eq!(line["dtype"], array.dtype, "{line}");
        assert_eq!(line["shape"], serde_json::json!(array.shape), "{line}");
        let elements =
            |list: &Value| list.as_array().expect("a list").iter().map(|n| n.as_u64().expect("a number")).product();
        let [of_ggml, of_array]: [u64; 2] = [elements(&line["ne"]), elements(&line["shape"])];
        assert_eq!(of_ggml, of_array, "{line}");
    }
    Dumped { line, array }
}

/// Returns the names in a folder, sorted.
pub fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
