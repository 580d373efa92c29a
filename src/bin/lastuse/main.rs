//! The command-line tool.

mod check;
mod compare;
mod convert;
mod input;
mod launch;
mod plan;
mod reorder;
mod run;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Plans the memory of ggml's computation graphs.
#[derive(Parser)]
#[command(name = "lastuse", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(check::Arguments),
    Compare(compare::Arguments),
    Convert(convert::Arguments),
    Plan(plan::Arguments),
    Run(run::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Check(arguments) => check::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
    };
    match done {
        Ok(code) => code,
        Err(message) => {
            // There is nobody left to tell when standard error is closed.
            let _ = writeln!(io::stderr(), "lastuse: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Prints to the standard output. That its reader has seen enough (a pipe to `head`) is no failure.
fn print(text: &[u8]) -> Result<(), String> {
    match io::stdout().write_all(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("cannot print: {error}")),
        _ => Ok(()),
    }
}
