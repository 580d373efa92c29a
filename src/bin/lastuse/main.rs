//! The command-line tool.

mod plan;

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
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Plan(arguments) => plan::run(&arguments),
    };
    match done {
        Ok(code) => code,
        Err(message) => {
            eprintln!("lastuse: {message}");
            ExitCode::FAILURE
        }
    }
}
