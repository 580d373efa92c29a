//! Input files: graphs, folders of graphs, and placement problems.

use std::fs::{DirEntry, File};
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::{fs, io};

use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{Flags, TensorId, shape_label};

use crate::foreign::{FIRST_BYTES, Foreign, unreadable};
use crate::formats::csv::Sheet;
use crate::formats::{open_graph, read_graph};

/// The longest header of a CSV file, in bytes.
const MAX_HEADER: u64 = 1 << 16;

/// The content of a file.
pub enum Input {
    Graph(Snapshot),
    Problem(Sheet),
}

impl Input {
    /// Reads a file; "-" is the standard input. It is CSV if its name ends in .csv or its first line is a CSV header.
    pub fn read(file: &Path) -> Result<Self, String> {
        let mut reader: Box<dyn BufRead> = match file.to_str() {
            Some("-") => Box::new(io::stdin().lock()),
            _ if file.is_dir() => return Err(folder_is_no_graph(file)),
            _ => Box::new(BufReader::new(File::open(file).map_err(|error| unreadable(file, &error))?)),
        };
        // A read error comes again with the rest of the file, and is reported then.
        let (mut start, mut first_line) = (Vec::new(), Vec::new());
        let _ = reader.by_ref().take(FIRST_BYTES as u64).read_to_end(&mut start);
        if let Some(foreign) = Foreign::of(&start) {
            return Err(foreign.instead_of_graph());
        }
        let mut reader = Cursor::new(start).chain(reader);
        let _ = reader.by_ref().take(MAX_HEADER).read_until(b'\n', &mut first_line);
        let is_csv = has_csv_name(file) || is_csv_header(&first_line);
        let whole = Cursor::new(first_line).chain(reader);
        if is_csv {
            Sheet::read(whole).map(Self::Problem).map_err(|malformed| malformed.to_string())
        } else if file.extension().is_some_and(|extension| extension == "gz") {
            open_graph(file).map(Self::Graph).map_err(|unreadable| unreadable.to_string())
        } else {
            read_graph(whole).map(Self::Graph).map_err(|malformed| malformed.to_string())
        }
    }

    /// Reads a file that must be a graph.
    pub fn read_graph(file: &Path) -> Result<Snapshot, String> {
        match Self::read(file)? {
            Self::Graph(snapshot) => Ok(with_label(snapshot)),
            Self::Problem(_) => {
                Err("this is a CSV file, not a graph; \"lastuse plan\" and \"lastuse convert\" read it".to_owned())
            }
        }
    }
}

fn has_csv_name(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"))
}

/// Returns whether a first line is a CSV header. That of a graph is a JSON object, or compressed.
fn is_csv_header(first_line: &[u8]) -> bool {
    let is_text = std::str::from_utf8(first_line).is_ok();
    is_text && first_line.contains(&b',') && !first_line.trim_ascii_start().starts_with(b"{")
}

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

/// Returns whether a file is named as graphs are.
pub fn is_graph_name(file: &Path) -> bool {
    let name = file.to_string_lossy();
    name.ends_with(".jsonl") || name.ends_with(".jsonl.gz")
}

/// The start of the label that all graphs have which lastuse captured.
const CAPTURED: &str = "written by lastuse ";

/// Returns the graph with a distinct label, where it has that of all captured graphs: the label of its input goes
/// before it.
pub fn with_label(mut snapshot: Snapshot) -> Snapshot {
    if let (true, Some(shape)) = (snapshot.label.starts_with(CAPTURED), shape_of(&snapshot)) {
        snapshot.label = format!("{shape} ({})", snapshot.label);
    }
    snapshot
}

/// Returns a label of the input of a graph: its tokens, its largest input, or its result where it has no input.
pub fn shape_of(snapshot: &Snapshot) -> Option<String> {
    let graph = &snapshot.graph;
    let named = |&id: &TensorId| (snapshot.tensors[id as usize].name.clone(), graph.layout(id).ne);
    let inputs = graph.leafs().iter().filter(|&&id| graph.tensor(id).flags.has(Flags::INPUT));
    shape_label(inputs.map(named)).or_else(|| shape_label(graph.nodes().last().map(named)))
}
