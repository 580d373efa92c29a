//! What is wrong with a file.

use std::fmt;

/// Why a file cannot be read as a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedTensor(String);

impl fmt::Display for MalformedTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MalformedTensor {}

pub type Result<T> = std::result::Result<T, MalformedTensor>;

pub fn malformed<T>(reason: impl Into<String>) -> Result<T> {
    Err(MalformedTensor(reason.into()))
}
