//! Reads little-endian numbers and strings with checked bounds.

use std::io::Read;

use crate::malformed::{Result, malformed};

/// The part of a file that is not read yet.
#[derive(Debug)]
pub struct HeaderReader<R> {
    reader: R,
    position: u64,
    /// The end of the file, or the position that a header must not reach beyond.
    end: u64,
    /// Whether `end` is the end of the file.
    is_whole: bool,
}

impl<R: Read> HeaderReader<R> {
    /// Begins a file of `length` bytes, of which at most `limit` are read.
    pub fn new(reader: R, length: u64, limit: u64) -> Self {
        Self { reader, position: 0, end: length.min(limit), is_whole: length <= limit }
    }

    /// Returns the number of bytes that have been read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Reads `count` bytes of `what`. Memory is taken for no more than the file has.
    pub fn bytes(&mut self, count: u64, what: &str) -> Result<Vec<u8>> {
        let left = self.end - self.position;
        if count > left {
            return malformed(if self.is_whole {
                format!(
                    "{what} takes {count} bytes at byte {}, and the file has {left} more: is it whole?",
                    self.position
                )
            } else {
                format!("{what} takes {count} bytes at byte {}: the header is longer than {}", self.position, self.end)
            });
        }
        let mut bytes = Vec::new();
        match self.reader.by_ref().take(count).read_to_end(&mut bytes) {
            Err(error) => malformed(format!("{what} cannot be read at byte {}: {error}", self.position)),
            Ok(read) if (read as u64) < count => malformed(format!("the file got shorter while {what} was read")),
            Ok(_) => {
                self.position += count;
                Ok(bytes)
            }
        }
    }

    /// Reads a number as its bytes.
    pub fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let bytes = self.bytes(N as u64, what)?;
        Ok(bytes.try_into().expect("as many bytes as requested"))
    }

    pub fn u32(&mut self, what: &str) -> Result<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub fn u64(&mut self, what: &str) -> Result<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// Reads a string of at most `limit` bytes: its length, and its bytes without a zero at the end.
    pub fn string(&mut self, limit: u64, what: &str) -> Result<String> {
        let length = self.u64(&format!("the length of {what}"))?;
        if length > limit {
            return malformed(format!("{what} has {length} bytes; at most {limit} are supported"));
        }
        let bytes = self.bytes(length, what)?;
        String::from_utf8(bytes).or_else(|_| malformed(format!("{what} is not UTF-8")))
    }
}
