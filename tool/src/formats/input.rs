//! Input that may be compressed by gzip, and its defects.

use std::io::{BufRead, BufReader, Cursor, Read};
use std::{fmt, io};

use flate2::bufread::MultiGzDecoder;

/// The first bytes of every gzip file.
pub const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Returns whether bytes begin as a gzip file does.
pub fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Returns the contents of `input`, decompressed where it begins as a gzip file does.
pub fn decompressed<'i>(mut input: impl BufRead + 'i) -> io::Result<Box<dyn BufRead + 'i>> {
    let mut start = Vec::new();
    input.by_ref().take(MAGIC.len() as u64).read_to_end(&mut start)?;
    let compressed = start == MAGIC;
    let whole = Cursor::new(start).chain(input);
    Ok(if compressed { Box::new(BufReader::new(Gzip(MultiGzDecoder::new(whole)))) } else { Box::new(whole) })
}

/// A decoder whose errors describe the file, not the algorithm.
struct Gzip<R>(MultiGzDecoder<R>);

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::new(error.kind(), "the compressed data ends too early: is the file whole?")
            }
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                io::Error::new(error.kind(), format!("the compressed data is damaged: {error}"))
            }
            _ => error,
        })
    }
}

/// A defect of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The line, from 1, in files of lines.
    pub line: Option<usize>,
    /// The defect, and the remedy where that is not obvious.
    pub reason: String,
}

impl Malformed {
    /// Returns a defect that the reason places.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { line: None, reason: reason.into() }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

impl std::error::Error for Malformed {}

/// Returns the defect of a line.
pub fn malformed(line: usize, reason: impl Into<String>) -> Malformed {
    Malformed { line: Some(line), reason: reason.into() }
}
