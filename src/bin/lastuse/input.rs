//! Input files: graphs and placement problems.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use lastuse::formats::csv::Sheet;
use lastuse::graph::snapshot::Snapshot;

use super::foreign::{FIRST_BYTES, Foreign};
use super::graph_files::folder_is_no_graph;
use super::label::with_label;
use super::path_errors::unreadable;

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
            Snapshot::open(file).map(Self::Graph).map_err(|unreadable| unreadable.to_string())
        } else {
            Snapshot::read(whole).map(Self::Graph).map_err(|malformed| malformed.to_string())
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
