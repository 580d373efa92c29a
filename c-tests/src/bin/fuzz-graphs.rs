//! `cargo fuzz-graphs`: random graphs through the C ABI of lastuse as users build it, compared with ggml's own
//! allocator.
//!
//! The arguments are documented in `src/fuzz_graphs.c`.

use std::ffi::OsStr;
use std::process::ExitCode;

use lastuse_c_tests::{Build, Result, fuzz_program, lastuse};
use lastuse_vendor::{Package, ggml};

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::FAILURE
    })
}

fn run() -> Result<ExitCode> {
    let program = fuzz_program("fuzz_graphs-release", &ggml(Package::LlamaCpp)?, &lastuse(Build::Release)?)?;
    let mut command = program.command(&[], &[] as &[(&str, &OsStr)]);
    let status = command.args(std::env::args_os().skip(1)).status();
    let code = status.map_err(|error| format!("cannot run {}: {error}", program.path().display()))?.code();
    // A signal has no exit code: shells report 128 and more.
    Ok(code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::from(128), ExitCode::from))
}
