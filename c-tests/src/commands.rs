//! The command line of benchmarks.

use std::process::ExitCode;

use crate::Result;

/// Runs a benchmark on the names among the arguments of the process. `help` is printed for `--help`, and for options that
/// are not known.
pub fn bench_of_names(bench: &str, help: &str, run: impl FnOnce(&[String]) -> Result<()>) -> ExitCode {
    let (options, names): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|it| it.starts_with('-'));
    // Cargo passes --bench to benchmarks.
    match options.iter().map(String::as_str).find(|&option| option != "--bench") {
        None => {}
        Some("--help" | "-h") => {
            println!("{help}");
            return ExitCode::SUCCESS;
        }
        Some(other) => {
            eprintln!("{bench}: {other:?} is not known\n\n{help}");
            return ExitCode::from(2);
        }
    }
    match run(&names) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{bench}: {message}");
            ExitCode::FAILURE
        }
    }
}
