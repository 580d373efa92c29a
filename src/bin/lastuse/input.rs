//! What a file holds.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use lastuse::graph::snapshot::Snapshot;
use lastuse::placement::csv::Sheet;

/// The content of a file.
pub enum Input {
    Graph(Snapshot),
    Problem(Sheet),
}

impl Input {
    /// Reads a file; "-" is the standard input. It is CSV when its name or its first line says so.
    pub fn read(file: &Path) -> Result<Self, String> {
        let mut reader: Box<dyn BufRead> = match file.to_str() {
            Some("-") => Box::new(io::stdin().lock()),
            _ => Box::new(BufReader::new(File::open(file).map_err(|error| error.to_string())?)),
        };
        let mut first_line = Vec::new();
        // What cannot be read is said when the rest is read.
        let _ = reader.read_until(b'\n', &mut first_line);
        let is_csv = is_named_csv(file) || looks_like_csv(&first_line);
        let whole = Cursor::new(first_line).chain(reader);
        if is_csv {
            Sheet::read(whole).map(Self::Problem).map_err(|malformed| malformed.to_string())
        } else if file.extension().is_some_and(|extension| extension == "gz") {
            Snapshot::open(file).map(Self::Graph).map_err(|unreadable| unreadable.to_string())
        } else {
            Snapshot::read(whole).map(Self::Graph).map_err(|malformed| malformed.to_string())
        }
    }
}

fn is_named_csv(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"))
}

/// A graph starts with a JSON object, or what gzip made of one.
fn looks_like_csv(first_line: &[u8]) -> bool {
    let is_text = std::str::from_utf8(first_line).is_ok();
    is_text && first_line.contains(&b',') && !first_line.trim_ascii_start().starts_with(b"{")
}
