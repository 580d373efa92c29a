//! Files of other kinds, which are given where a graph is expected: recognized by their first bytes.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The kind of a file that lastuse cannot read as a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// A model, in the named format.
    Model(&'static str),
    /// An ELF file.
    Binary,
    /// A file whose first line names an interpreter.
    Script,
    /// An HTML page.
    Page,
    /// A picture or a document, in the named format.
    Picture(&'static str),
    /// Which neurons of a model belong on a GPU.
    NeuronIndex,
    /// An array of NumPy.
    Array,
    /// A ZIP archive, such as PyTorch's .pt files.
    Archive,
}

/// How many first bytes tell the kinds apart.
pub const FIRST_BYTES: usize = 512;

/// First bytes and what files they begin.
const MAGIC: [(&[u8], Foreign); 12] = [
    (b"GGUF", Foreign::Model("GGUF")),
    (b"ggjt", Foreign::Model("GGML")),
    (b"\x7fELF", Foreign::Binary),
    (b"#!", Foreign::Script),
    (b"\x89PNG", Foreign::Picture("PNG")),
    (b"\xff\xd8\xff", Foreign::Picture("JPEG")),
    (b"GIF8", Foreign::Picture("GIF")),
    (b"RIFF", Foreign::Picture("WebP")),
    (b"%PDF", Foreign::Picture("PDF")),
    (b"PWRI", Foreign::NeuronIndex),
    (b"\x93NUMPY", Foreign::Array),
    (b"PK\x03\x04", Foreign::Archive),
];

impl Foreign {
    /// Recognizes a file by its first bytes, of which [`FIRST_BYTES`] are enough.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let by_magic = MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|&(_, kind)| kind);
        by_magic.or_else(|| of_markup(bytes)).or_else(|| is_safetensors(bytes).then_some(Self::Model("safetensors")))
    }

    /// Recognizes a file by its name on the command line; `None` also if it cannot be read.
    pub fn of_file(file: &Path) -> Option<Self> {
        let mut start = Vec::new();
        File::open(file).ok()?.take(FIRST_BYTES as u64).read_to_end(&mut start).ok()?;
        Self::of(&start)
    }

    /// Returns the kind of the file, for a message: "a model (GGUF)".
    pub fn name(self) -> String {
        match self {
            Self::Model(format) => format!("a model ({format})"),
            Self::Binary => "a program or a library (ELF)".to_owned(),
            Self::Script => "a script".to_owned(),
            Self::Page => "an HTML page".to_owned(),
            Self::Picture(format) => format!("a picture ({format})"),
            Self::NeuronIndex => "a list of neurons (.gpuidx)".to_owned(),
            Self::Array => "an array of NumPy".to_owned(),
            Self::Archive => "an archive (ZIP, as PyTorch's .pt)".to_owned(),
        }
    }

    /// Returns what to do with the file where a graph is expected.
    pub fn instead_of_graph(self) -> String {
        let capture = |program: &str| format!("\"lastuse run --capture DIR {program}\"");
        let advice = match self {
            Self::Model(_) => format!("capture graphs of a program that runs it with {}", capture("PROGRAM")),
            Self::Binary | Self::Script => {
                format!("if it is a program that uses ggml, capture its graphs with {}", capture("FILE"))
            }
            Self::Page | Self::Picture(_) => {
                "if \"lastuse draw\" made it, give the graph that it was drawn from (*.jsonl)".to_owned()
            }
            Self::NeuronIndex => "\"lastuse neurons --check FILE\" reads it".to_owned(),
            Self::Array => "\"lastuse neurons\" reads arrays with the hotness of neurons".to_owned(),
            Self::Archive => format!("graphs are captured from programs on ggml, with {}", capture("PROGRAM")),
        };
        format!("this is {}, not a graph: {advice}", self.name())
    }
}

/// Recognizes pages and SVG pictures, which may begin with an XML declaration.
fn of_markup(bytes: &[u8]) -> Option<Foreign> {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(FIRST_BYTES)]).trim_start().to_lowercase();
    match () {
        () if start.starts_with("<!doctype html") || start.starts_with("<html") => Some(Foreign::Page),
        () if start.starts_with("<svg") => Some(Foreign::Picture("SVG")),
        () if start.starts_with("<?xml") && start.contains("<svg") => Some(Foreign::Picture("SVG")),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_recognized_by_their_first_bytes() {
        for (bytes, kind) in [
            (&b"GGUF\x03\0\0\0"[..], Foreign::Model("GGUF")),
            (b"\x40\0\0\0\0\0\0\0{\"weight\":", Foreign::Model("safetensors")),
            (b"\x7fELF\x02\x01", Foreign::Binary),
            (b"#!/bin/sh\n", Foreign::Script),
            (b"\n<!DOCTYPE html>\n<html>", Foreign::Page),
            (b"<?xml version=\"1.0\"?>\n<svg xmlns", Foreign::Picture("SVG")),
            (b"\x89PNG\r\n\x1a\n", Foreign::Picture("PNG")),
        ] {
            assert_eq!(Foreign::of(bytes), Some(kind), "{}", String::from_utf8_lossy(bytes));
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
