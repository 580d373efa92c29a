//! The standard output and the standard error.

use std::io::{self, Write};

/// Prints to the standard output. A closed pipe (`| head`) is not a failure.
pub fn print(text: &[u8]) -> Result<(), String> {
    match io::stdout().write_all(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("cannot print: {error}")),
        _ => Ok(()),
    }
}

/// Prints a message to the standard error. Unlike `eprintln` it does not panic when that is closed.
pub fn print_error(message: &str) {
    let _ = writeln!(io::stderr(), "lastuse: {message}");
}
