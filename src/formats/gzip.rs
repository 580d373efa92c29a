//! Input that may be compressed by gzip.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;

/// The first bytes of every gzip file.
pub const MAGIC: [u8; 2] = [0x1f, 0x8b];

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
