//! What the tool prints.

use std::io::{self, Write};

/// Prints to the standard output. That its reader has seen enough (a pipe to `head`) is no failure.
pub fn print(text: &[u8]) -> Result<(), String> {
    match io::stdout().write_all(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("cannot print: {error}")),
        _ => Ok(()),
    }
}

/// Says on the standard error what is wrong. Not by `eprintln`, which panics when nobody reads the messages any more.
pub fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "lastuse: {message}");
}
