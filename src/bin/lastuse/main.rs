//! The command-line tool: runs programs with lastuse, plans, explains, draws and checks the memory of captured graphs,
//! and splits neurons between devices.

mod buffer;
mod check;
mod compare;
mod convert;
mod draw;
mod explain;
mod input;
mod launch;
mod output;
mod place;
mod plan;
mod planning;
mod print;
mod progress;
mod recompute;
mod run;
mod size;
mod split;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Less memory for ggml's computation graphs: runs programs with lastuse, and plans, explains and draws their graphs.
///
/// A ggml program keeps the intermediate results of a graph in compute buffers. lastuse replaces the allocator that places
/// them, ggml-alloc, and needs less memory for most graphs. Graphs are captured from running programs to files.
#[derive(Parser)]
#[command(
    name = "lastuse",
    version,
    arg_required_else_help = true,
    after_help = "Examples:
  lastuse run -- ./llama-cli -m model.gguf            the compute buffers of a program, unchanged, beside ggml-alloc's
  lastuse run --capture graphs -- ./llama-cli -m ...  capture its graphs to files
  lastuse plan graphs/*.jsonl                         a table: lastuse, ggml-alloc, and the lower bound
  lastuse explain llama.jsonl                         which tensors are live at the peak, and what would lower it
  lastuse draw llama.jsonl -o map.html                memory over time, to explore in a browser
  lastuse place graphs/*.jsonl --device Vulkan0=2GiB  which weights and caches go on a GPU, within its memory
  lastuse split statistics --bytes 5GiB --embd 4096 --type q4_0 -o llama.gpuidx    the neurons that belong on a GPU

\"lastuse COMMAND --help\" documents a command."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Arguments),
    Compare(compare::Arguments),
    Plan(plan::Arguments),
    Explain(explain::Arguments),
    Draw(draw::Arguments),
    Check(check::Arguments),
    Convert(convert::Arguments),
    Split(split::Arguments),
    Place(place::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Draw(arguments) => draw::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Split(arguments) => split::run(&arguments),
        Command::Place(arguments) => place::run(&arguments),
    };
    match result {
        Ok(code) => code,
        Err(message) => {
            print::print_error(&message);
            ExitCode::FAILURE
        }
    }
}
