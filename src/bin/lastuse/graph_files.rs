//! Graphs of folders on the command line.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use super::path_errors::unreadable;

/// Returns the files with each folder replaced by its graphs. A folder without graphs stays in the list: reading it gives the
/// reason.
pub fn expanded(files: &[PathBuf]) -> Vec<PathBuf> {
    let graphs = |file: &PathBuf| match graphs_in(file) {
        Ok(graphs) if !graphs.is_empty() => graphs,
        _ => vec![file.clone()],
    };
    files.iter().flat_map(graphs).collect()
}

/// Returns the files of a folder that are named *.jsonl or *.jsonl.gz, sorted by name.
pub fn graphs_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries: Result<Vec<DirEntry>, _> = fs::read_dir(folder)?.collect();
    let mut files: Vec<PathBuf> = entries?.iter().map(DirEntry::path).filter(|file| is_graph_name(file)).collect();
    files.sort();
    Ok(files)
}

/// Returns why a folder cannot be read as one graph.
pub fn folder_is_no_graph(folder: &Path) -> String {
    match graphs_in(folder).as_deref() {
        Ok([]) => "the folder has no graph, which is a file named *.jsonl or *.jsonl.gz; \"lastuse run --capture DIR \
                   PROGRAM\" writes those of a program"
            .to_owned(),
        Ok([first, ..]) => format!("this is a folder: give one of its graphs, such as {}", first.display()),
        Err(error) => unreadable(folder, error),
    }
}

fn is_graph_name(file: &Path) -> bool {
    let name = file.to_string_lossy();
    name.ends_with(".jsonl") || name.ends_with(".jsonl.gz")
}
