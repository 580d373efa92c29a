//! Captured graphs in files.

use lastuse_tool::formats::open_graph;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::{Compression, GzBuilder};
use lastuse::graph::snapshot::Snapshot;

use crate::{Result, folder};

/// How the names of graphs end, as text and compressed.
const ENDINGS: [&str; 2] = [".jsonl", ".jsonl.gz"];

/// The folder of the graphs that are committed.
pub fn captured_graphs() -> PathBuf {
    folder().join("graphs")
}

/// The graphs of a folder, by name.
///
/// # Errors
/// When the folder cannot be read, or has no graph.
pub fn graphs_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let is_graph = |path: &PathBuf| ENDINGS.iter().any(|ending| path.to_string_lossy().ends_with(ending));
    let mut graphs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_graph).collect();
    graphs.sort_by_key(|path| graph_name(path));
    if graphs.is_empty() { Err(format!("{} has no {}", folder.display(), ENDINGS.join(" or "))) } else { Ok(graphs) }
}

/// The name of a graph: that of its file without the ending.
pub fn graph_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let without = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending));
    without.unwrap_or(&name).to_owned()
}

/// The graph in a file.
///
/// # Errors
/// When it cannot be read, or something is wrong in it.
pub fn read_graph(path: &Path) -> Result<Snapshot> {
    open_graph(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Compresses the text of a graph; equal texts give equal bytes.
///
/// # Errors
/// When the file cannot be written.
pub fn write_compressed(path: &Path, text: &str) -> Result<()> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    // Without a name and a time, which gzip would write otherwise.
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).map_err(failed)?;
    fs::write(path, encoder.finish().map_err(failed)?).map_err(failed)
}

/// The text of a graph that was compressed.
///
/// # Errors
/// When the file cannot be read, or was not compressed.
pub fn read_compressed(path: &Path) -> Result<String> {
    let file = fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    std::io::read_to_string(flate2::read::MultiGzDecoder::new(file))
        .map_err(|error| format!("{}: {error}", path.display()))
}
