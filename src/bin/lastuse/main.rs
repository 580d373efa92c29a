//! The command-line tool.

mod explain;
mod input;
mod plan;
mod planning;
mod print;
mod progress;
mod reorder;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Plans and explains the memory of ggml's computation graphs.
#[derive(Parser)]
#[command(name = "lastuse", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Plan(plan::Arguments),
    Explain(explain::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
    };
    match done {
        Ok(code) => code,
        Err(message) => {
            print::complain(&message);
            ExitCode::FAILURE
        }
    }
}
