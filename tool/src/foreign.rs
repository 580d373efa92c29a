//! Files that are not what a command expects: of another kind, recognized by their first bytes, or neither readable nor
//! writable.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// A kind of files that lastuse cannot read as a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// The kind, for a message: "a model (GGUF)".
    pub name: &'static str,
    /// What to do with the file where a graph is expected.
    advice: &'static str,
}

/// How many first bytes tell the kinds apart.
pub const FIRST_BYTES: usize = 512;

const OF_MODEL: &str = "capture graphs of a program that runs it with \"lastuse run --capture DIR PROGRAM\"";
const OF_PROGRAM: &str =
    "if it is a program that uses ggml, capture its graphs with \"lastuse run --capture DIR FILE\"";
const OF_PICTURE: &str = "if \"lastuse draw\" made it, give the graph that it was drawn from (*.jsonl)";
const OF_NEURONS: &str = "\"lastuse neurons --check FILE\" reads it";
const OF_ARRAY: &str = "\"lastuse neurons\" reads arrays with the hotness of neurons";
const OF_ARCHIVE: &str = "graphs are captured from programs on ggml, with \"lastuse run --capture DIR PROGRAM\"";

const SAFETENSORS: Foreign = Foreign { name: "a model (safetensors)", advice: OF_MODEL };
const PAGE: Foreign = Foreign { name: "an HTML page", advice: OF_PICTURE };
const SVG: Foreign = Foreign { name: "a picture (SVG)", advice: OF_PICTURE };
const SCRIPT: &str = "a script";

/// First bytes, and what the files are that begin so.
const MAGIC: [(&[u8], &str, &str); 12] = [
    (b"GGUF", "a model (GGUF)", OF_MODEL),
    (b"ggjt", "a model (GGML)", OF_MODEL),
    (b"\x7fELF", "a program or a library (ELF)", OF_PROGRAM),
    (b"#!", SCRIPT, OF_PROGRAM),
    (b"\x89PNG", "a picture (PNG)", OF_PICTURE),
    (b"\xff\xd8\xff", "a picture (JPEG)", OF_PICTURE),
    (b"GIF8", "a picture (GIF)", OF_PICTURE),
    (b"RIFF", "a picture (WebP)", OF_PICTURE),
    (b"%PDF", "a picture (PDF)", OF_PICTURE),
    (b"PWRI", "a list of neurons (.gpuidx)", OF_NEURONS),
    (b"\x93NUMPY", "an array of NumPy", OF_ARRAY),
    (b"PK\x03\x04", "an archive (ZIP, as PyTorch's .pt)", OF_ARCHIVE),
];

impl Foreign {
    /// Recognizes a file by its first bytes, of which [`FIRST_BYTES`] are enough.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let by_magic = MAGIC.iter().find(|(magic, ..)| bytes.starts_with(magic));
        let by_magic = by_magic.map(|&(_, name, advice)| Self { name, advice });
        by_magic.or_else(|| of_markup(bytes)).or_else(|| is_safetensors(bytes).then_some(SAFETENSORS))
    }

    /// Recognizes a file by its name on the command line; `None` also if it cannot be read.
    pub fn of_file(file: &Path) -> Option<Self> {
        let mut start = Vec::new();
        File::open(file).ok()?.take(FIRST_BYTES as u64).read_to_end(&mut start).ok()?;
        Self::of(&start)
    }

    /// Returns whether it is executed: a binary or a script.
    pub fn is_program(self) -> bool {
        self.advice == OF_PROGRAM
    }

    /// Returns whether its first line names an interpreter.
    pub fn is_script(self) -> bool {
        self.name == SCRIPT
    }

    /// Returns what to do with the file where a graph is expected.
    pub fn instead_of_graph(self) -> String {
        format!("this is {}, not a graph: {}", self.name, self.advice)
    }
}

/// Recognizes pages and SVG pictures, which may begin with an XML declaration.
fn of_markup(bytes: &[u8]) -> Option<Foreign> {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(FIRST_BYTES)]).trim_start().to_lowercase();
    match () {
        () if start.starts_with("<!doctype html") || start.starts_with("<html") => Some(PAGE),
        () if start.starts_with("<svg") => Some(SVG),
        () if start.starts_with("<?xml") && start.contains("<svg") => Some(SVG),
        () => None,
    }
}

/// The first bytes of a file that gzip has compressed. They may be a length too.
const GZIP: &[u8] = b"\x1f\x8b\x08";

/// Returns whether the bytes are the length of a JSON header in 8 bytes, and its beginning.
fn is_safetensors(bytes: &[u8]) -> bool {
    if bytes.starts_with(GZIP) {
        return false;
    }
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else { return false };
    // Headers of more than 100 MB are refused by all readers of the format.
    (2..=100_000_000).contains(&u64::from_le_bytes(*length)) && rest.starts_with(b"{\"")
}

/// Describes why a file cannot be read: the error, and the folder at fault, if it is one.
pub fn unreadable(file: &Path, error: &io::Error) -> String {
    let why = match error.kind() {
        ErrorKind::NotFound => "no such file".to_owned(),
        ErrorKind::IsADirectory => "is a directory: give the files in it".to_owned(),
        _ => error.to_string(),
    };
    match faulty_folder(file) {
        Some(fault) => format!("{why}: {fault}"),
        None => why,
    }
}

/// Describes why a file cannot be opened for writing.
pub fn unwritable(file: &Path, error: &io::Error) -> String {
    if let Some(fault) = faulty_folder(file) {
        return fault;
    }
    match error.kind() {
        ErrorKind::PermissionDenied if file.exists() => "no permission to write to this file".to_owned(),
        ErrorKind::PermissionDenied => format!("no permission to create files in {}", parent(file).display()),
        ErrorKind::IsADirectory => "it is a folder".to_owned(),
        ErrorKind::AlreadyExists => "it is a file, not a folder".to_owned(),
        _ => error.to_string(),
    }
}

/// Describes the first folder of a path that is missing, is not a folder, or may not be searched.
pub fn faulty_folder(path: &Path) -> Option<String> {
    let parts: Vec<&Path> = path.ancestors().filter(|part| !part.as_os_str().is_empty()).collect();
    let (file, folders) = parts.split_first()?;
    for folder in folders.iter().rev().chain([file]) {
        match folder.metadata() {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Some(format!("no permission to search the folder {}", parent(folder).display()));
            }
            _ if folder == file => {}
            Ok(data) if !data.is_dir() => return Some(format!("{} is not a folder", folder.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Some(format!("there is no folder {}", folder.display()));
            }
            _ => {}
        }
    }
    None
}

/// Returns the folder of a path.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_recognized_by_their_first_bytes() {
        for (bytes, kind) in [
            (&b"GGUF\x03\0\0\0"[..], "a model (GGUF)"),
            (b"\x40\0\0\0\0\0\0\0{\"weight\":", "a model (safetensors)"),
            (b"\x7fELF\x02\x01", "a program or a library (ELF)"),
            (b"#!/bin/sh\n", "a script"),
            (b"\n<!DOCTYPE html>\n<html>", "an HTML page"),
            (b"<?xml version=\"1.0\"?>\n<svg xmlns", "a picture (SVG)"),
            (b"\x89PNG\r\n\x1a\n", "a picture (PNG)"),
        ] {
            assert_eq!(
                Foreign::of(bytes).map(|foreign| foreign.name),
                Some(kind),
                "{}",
                String::from_utf8_lossy(bytes)
            );
        }
    }

    #[test]
    fn graphs_and_problems_are_not_foreign() {
        for bytes in
            [&b"{\"format\":\"lastuse-graph\""[..], b"id,lower,upper,size\n", b"\x1f\x8b\x08\0\0\0\0\0{\"", b"", b"{"]
        {
            assert_eq!(Foreign::of(bytes), None, "{}", String::from_utf8_lossy(bytes));
        }
    }
}
