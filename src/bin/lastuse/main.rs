//! The command-line tool.

mod draw;
mod plan;
mod reorder;

use std::io::Write;
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
    Plan(plan::Arguments),
    Draw(draw::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Draw(arguments) => draw::run(&arguments),
    };
    match done {
        Ok(code) => code,
        Err(message) => {
            // There is nobody left to tell when standard error is closed.
            let _ = writeln!(std::io::stderr(), "lastuse: {message}");
            ExitCode::FAILURE
        }
    }
}
