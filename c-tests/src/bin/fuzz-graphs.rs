//! `cargo fuzz-graphs`: random graphs through the C ABI of lastuse as users build it, beside ggml's own allocator.
//!
//! `programs/fuzz_graphs.c` says what is tried, and which arguments there are.

use std::ffi::OsStr;
use std::process::ExitCode;

use lastuse_c_tests::{Build, Linked, Program, Result, lastuse, sources};
use lastuse_vendor::{Package, ggml};

/// What the program is made of besides its own file.
const SUPPORTS: [&str; 6] = ["fuzz", "side_by_side", "own_memory", "random_graph", "plan_check", "dummy_buffer"];

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::FAILURE
    })
}

fn run() -> Result<ExitCode> {
    let sources = sources("fuzz_graphs", &SUPPORTS);
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let (ggml, lastuse) = (ggml(Package::LlamaCpp)?, lastuse(Build::Release)?);
    let program = Program::build("fuzz_graphs-release", &sources, &ggml, Linked::Both(&lastuse), &["-O2"])?;
    let mut command = program.command(&[], &[] as &[(&str, &OsStr)]);
    let status = command.args(std::env::args_os().skip(1)).status();
    let code = status.map_err(|error| format!("cannot run {}: {error}", program.path().display()))?.code();
    // A signal is told as shells do.
    Ok(code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::from(128), ExitCode::from))
}
