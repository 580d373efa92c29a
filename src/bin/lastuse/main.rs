//! The command-line tool.

mod check;
mod compare;
mod convert;
mod draw;
mod explain;
mod input;
mod launch;
mod output;
mod plan;
mod planning;
mod print;
mod progress;
mod reorder;
mod run;

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
    Check(check::Arguments),
    Compare(compare::Arguments),
    Convert(convert::Arguments),
    Draw(draw::Arguments),
    Explain(explain::Arguments),
    Plan(plan::Arguments),
    Run(run::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Check(arguments) => check::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Draw(arguments) => draw::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
    };
    match done {
        Ok(code) => code,
        Err(message) => {
            print::complain(&message);
            ExitCode::FAILURE
        }
    }
}
