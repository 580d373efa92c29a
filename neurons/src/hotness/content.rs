//! The numbers of a file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::malformed::Unreadable;
use crate::npy::{NpyArray, is_npy};
use crate::torch;

use super::unreadable;

/// The largest file that is read, in bytes.
pub const MAX_FILE: u64 = 1 << 30;

/// How a file holds its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatsFormat {
    Npy,
    Torch,
    Float32,
}

impl StatsFormat {
    /// Finds out the format by the ending of the name, and else by the content. Bare numbers need their ending.
    fn of(path: &Path, content: &[u8]) -> Option<Self> {
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
        match extension.as_deref() {
            Some("f32") => Some(Self::Float32),
            Some("npy") => Some(Self::Npy),
            Some("pt" | "pth") => Some(Self::Torch),
            _ if is_npy(content) => Some(Self::Npy),
            _ if torch::is_torch(content) => Some(Self::Torch),
            _ => None,
        }
    }
}

/// Reads the numbers of a file.
pub fn read(path: &Path) -> Result<Vec<f64>, Unreadable> {
    let content = match whole(path) {
        Ok(content) => content,
        Err(error) => return Err(Unreadable::of_io(path, &error)),
    };
    let Some(format) = StatsFormat::of(path, &content) else {
        return unreadable(
            path,
            "it is neither a NumPy array nor a torch tensor; bare numbers of 32 bits need a name that ends in .f32",
        );
    };
    let values = match format {
        StatsFormat::Npy => npy(&content),
        StatsFormat::Torch => torch::read(&content).map_err(|malformed| malformed.to_string()),
        StatsFormat::Float32 => float32(&content),
    };
    values.or_else(|reason| unreadable(path, reason))
}

fn whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_FILE {
        return Err(io::Error::other(format!("it has more than {MAX_FILE} bytes; no layer has so many neurons")));
    }
    Ok(content)
}

fn npy(content: &[u8]) -> Result<Vec<f64>, String> {
    let array = NpyArray::read(content).map_err(|malformed| malformed.to_string())?;
    if array.shape.len() != 1 {
        let shape = &array.shape;
        return Err(format!("the shape is {shape:?}; one number for each neuron, one dimension, is expected"));
    }
    Ok(array.values())
}

fn float32(content: &[u8]) -> Result<Vec<f64>, String> {
    let (numbers, rest) = content.as_chunks();
    if !rest.is_empty() {
        return Err(format!("it has {} bytes, no whole number of 4-byte numbers: is the file whole?", content.len()));
    }
    Ok(numbers.iter().map(|&number| f64::from(f32::from_le_bytes(number))).collect())
}
