//! The command-line tool: see the library of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    lastuse_tool::run()
}
