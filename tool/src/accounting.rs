//! `lastuse accounting`: what devices held, from the files that processes wrote.

use std::path::PathBuf;
use std::process::ExitCode;

use super::output::print;
use super::run::accounting::{Written, tables, tables_with_tensors};
use crate::usage::Failure;

/// Print what devices held, from files that LASTUSE_ACCOUNTING wrote.
///
/// Reads files in the format "lastuse-accounting", which programs with lastuse write when they exit. Prints a table of the
/// devices and one of the buffers, with the bytes of weights, caches (kv), compute buffers, everything else and rounding, of
/// the moment when each device held the most.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lastuse accounting memory.json
  lastuse accounting --tensors memory.json | less -S

Exit codes: 0 printed, 1 a file is malformed or cannot be read, 2 wrong usage.")]
pub struct Arguments {
    /// The files (*.json), one for each process.
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// Print the tensors as well: what each is for, where it is, what executes it, and the steps at which it is needed.
    #[arg(long)]
    tensors: bool,
}

/// Prints the tables of all files.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let written: Vec<Written> = arguments.files.iter().map(|file| Written::read(file)).collect::<Result<_, _>>()?;
    let text = if arguments.tensors { tables_with_tensors(&written) } else { tables(&written) };
    print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
