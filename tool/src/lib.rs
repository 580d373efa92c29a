//! The command-line tool: runs programs with lastuse, plans, explains, draws and checks the memory of captured graphs,
//! and chooses the neurons that belong on a GPU.

pub mod formats;
pub mod report;
mod accounting;
mod check;
mod compare;
mod convert;
mod draw;
mod elf;
mod explain;
mod foreign;
mod input;
mod launch;
mod manual;
mod measure;
mod neurons;
mod offload;
mod output;
mod passes;
mod plan;
mod planning;
mod reach;
mod run;
mod service;
mod settings;
mod usage;

#[cfg(test)]
#[path = "../../src/testing.rs"]
mod testing;

use std::process::ExitCode;

use clap::{ArgAction, Parser, Subcommand};

/// Less memory for ggml's computation graphs.
///
/// A ggml program keeps the intermediate results of a graph in compute buffers. lastuse replaces the allocator that places
/// them, ggml-alloc, and needs less memory for most graphs. On the CPU, caches of keys and values take memory only as they fill
/// (--on-demand=off turns that off). On the CPU, results stay the same. The tool runs programs with lastuse, captures their graphs to files, and
/// plans, explains and draws these.
#[derive(Parser)]
#[command(
    name = "lastuse",
    version,
    disable_version_flag = true,
    arg_required_else_help = true,
    after_help = "Examples:
  lastuse run ./llama-cli -m model.gguf                a program, unchanged
  lastuse measure ./llama-server -m model.gguf ...     its bytes, without loading it
  lastuse run --capture graphs ./llama-cli -m ...      its graphs, to files
  lastuse explain graphs                               what is live at the peak
  lastuse draw graphs -o map.html                      to explore in a browser
  lastuse compare ./llama-completion -m model.gguf ... compared with ggml-alloc
  lastuse compare old.json new.json                    what grew, and why
  lastuse plan graphs                                  a table of their bytes
  lastuse offload --device Vulkan0=2GiB -- ./llama-server -m ...   what fits there
  lastuse reach ./llama-cli                            whether run has an effect
  sudo $(command -v lastuse) enable --now llama-server   a systemd service

\"lastuse COMMAND --help\" documents a command."
)]
struct Arguments {
    /// Print the version
    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,

    #[command(subcommand)]
    command: Command,
}

/// The commands, in the order of use.
#[derive(Subcommand)]
enum Command {
    Run(run::Arguments),
    Measure(measure::Arguments),
    Enable(service::Enable),
    Disable(service::Disable),
    Explain(explain::Arguments),
    Draw(draw::Arguments),
    Compare(compare::Arguments),
    Plan(plan::Arguments),
    Check(check::Arguments),
    Convert(convert::Arguments),
    Offload(offload::Arguments),
    Neurons(neurons::Arguments),
    Accounting(accounting::Arguments),
    Reach(reach::Arguments),
    Completions(manual::Completions),
    Man(manual::ManPages),
}

/// Runs the command that the arguments of the process name. Returns the exit code of the process.
pub fn run() -> ExitCode {
    let result = match usage::parse::<Arguments>().command {
        Command::Run(arguments) => run::run(arguments),
        Command::Measure(arguments) => measure::run(&arguments),
        Command::Enable(arguments) => service::enable(&arguments),
        Command::Disable(arguments) => service::disable(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Draw(arguments) => draw::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Offload(arguments) => offload::run(&arguments),
        Command::Neurons(arguments) => neurons::run(&arguments),
        Command::Accounting(arguments) => accounting::run(&arguments),
        Command::Reach(arguments) => reach::run(&arguments),
        Command::Completions(arguments) => manual::print_completions(&arguments),
        Command::Man(arguments) => manual::print_pages(&arguments),
    };
    result.unwrap_or_else(usage::Failure::report)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Arguments;

    #[test]
    fn command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
