//! `lastuse compare`: a program with ggml-alloc and with lastuse, or what two versions of a program held.

mod programs;
mod files;
mod accountings;
mod captures;

pub use accountings::{AtPeak, SplitCopies, at_peak};
#[cfg(test)]
pub mod tests;

use std::process::ExitCode;

use lastuse::report::explain::DEFAULT_TOP;

use crate::launch::{FAILED, Target};
use crate::settings::Settings;
use crate::usage::{Failure, at_least_one};

/// Compare a program with both allocators, or what two versions held.
///
/// Runs the program with both allocators in turn. Prints the bytes of its compute buffers, its peak resident memory and
/// its time: the median, the least and the largest value of all runs, the ratio of the medians lastuse / ggml-alloc
/// (lower is better), and their difference. Where a run with one allocator is within the range of those with the other,
/// the difference is within noise. The output of the program is not shown, and its input is empty.
///
/// With two files or folders, OLD and NEW, says what grew or shrank between them, by device and by class, and which
/// tensors are the cause, the largest first. Tensors of all layers are one line, such as blk.*.ffn_up.weight. Both are
/// accountings ("lastuse run --accounting=FILE.json", LASTUSE_ACCOUNTING), reports ("lastuse run --json") or measurements
/// ("lastuse measure --why --json"), of what each device held at its peak or would hold, or both are captures ("lastuse run --capture DIR"), of each compute buffer in the graph that
/// needs the most.
#[derive(clap::Args)]
#[command(
    override_usage = "lastuse compare [OPTIONS] PROGRAM [ARGUMENTS]...
       lastuse compare [--bytes] [--top N] [--json] OLD NEW",
    after_help = "Examples:
  lastuse compare ./llama-completion -m model.gguf -c 32768 -p Hi -n 16 ...
  lastuse compare --budget 2GiB ./llama-completion -m model.gguf -fa off ...
  lastuse compare --runs 10 --json ./sd -m model.safetensors -p \"a cat\"
  lastuse compare old.json new.json           two accountings: what grew?
  lastuse compare old-graphs new-graphs       two folders of captures

Exit codes: 0 compared, 125 wrong usage, the program failed in one of the runs, or lastuse failed, 126 the program is not \
executable, 127 there is no such program. With two files: 0 compared, whether or not something grew, 1 a file is malformed or \
cannot be read, 2 wrong usage."
)]
pub struct Arguments {
    /// The number of runs with each allocator [default: 5].
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    runs: Option<u32>,

    /// Print JSON instead of the table: with every run of a program; of two files, format "lastuse-comparison".
    #[arg(long)]
    json: bool,

    /// Of two files: show sizes to the byte, not in MiB.
    #[arg(long)]
    bytes: bool,

    /// Of two files: the number of causes to list for each device [default: 20]; the others are summed up. JSON has all.
    // Parsed when it is known whether files are compared, which decides the exit code.
    #[arg(long, value_name = "N")]
    top: Option<String>,

    #[command(flatten)]
    settings: Settings,

    #[command(flatten)]
    target: Target,
}

impl Arguments {
    fn runs(&self) -> u32 {
        self.runs.unwrap_or(5)
    }

    fn top(&self) -> Result<usize, Failure> {
        let Some(top) = &self.top else { return Ok(DEFAULT_TOP) };
        top.parse().map_err(|_| Failure::usage(format!("--top {top}: not a whole number, or too large")))
    }

    /// Refuses an option that only concerns files.
    fn refuse_options_of_files(&self) -> Result<(), Failure> {
        let given = [("--bytes", self.bytes), ("--top", self.top.is_some())];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => {
                let message = format!("{option} is for two files, and {:?} is a program", self.target.words()[0]);
                Err(Failure::with_code(FAILED, message))
            }
            None => Ok(()),
        }
    }

    /// Refuses an option that only concerns programs.
    fn refuse_options_of_programs(&self) -> Result<(), Failure> {
        let settings = self.settings.variables().map_err(Failure::usage)?;
        let of_settings = settings.first().map(|(variable, _)| Settings::option_of(variable));
        let runs = self.runs.map(|_| "--runs".to_owned());
        let library = self.target.names_library().then(|| "--library".to_owned());
        match runs.or(library).or(of_settings) {
            Some(option) => Err(Failure::usage(format!("{option} is for running a program, and files are compared"))),
            None => Ok(()),
        }
    }
}

/// Runs the program with both allocators, or compares two files.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if files::are_meant(arguments.target.words()) {
        arguments.refuse_options_of_programs()?;
        files::compare(arguments)?;
    } else {
        arguments.refuse_options_of_files()?;
        programs::compare(arguments).map_err(|why| Failure::with_code(why.code, why.message))?;
    }
    Ok(ExitCode::SUCCESS)
}
