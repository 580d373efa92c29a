//! A defect of a file of lines.

use std::fmt;

/// A defect of a file, and its line; the first line is 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The line.
    pub line: usize,
    /// The defect, and the remedy where that is not obvious.
    pub reason: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

/// Returns the defect of a line.
pub fn malformed(line: usize, reason: impl Into<String>) -> Malformed {
    Malformed { line, reason: reason.into() }
}
