//! `cargo train`: a transformer is trained to the end on ggml's own allocator and on lastuse, in every way to train with
//! less memory.

mod measure;
mod table;

use std::process::ExitCode;

use lastuse_c_tests::Result;
use measure::Plan;

const HELP: &str = "\
Trains a transformer to add numbers modulo 31, by ggml_opt and by a loop over the functions that it calls, until it is
right about every pair of numbers that it was not shown: on ggml's own allocator, on lastuse, and with each method of
docs/training.md. Then takes a few steps with a larger network. Compares losses, memory and time.

Usage: cargo train [--quick] [--json] [--threads N]

  --quick       two epochs of a few batches, instead of training to the end
  --json        print JSON instead of tables
  --threads N   threads of the CPU (default 1); losses of different numbers of threads differ

ggml comes from a pinned registry package and is compiled the first time, which takes a minute or two.
Exit codes: 0 all losses are equal, 1 some differ or something failed, 2 wrong usage.";

enum Wanted {
    Help,
    Plan { plan: Plan, is_json: bool },
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match parse(&arguments) {
        Ok(Wanted::Help) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Ok(Wanted::Plan { plan, is_json }) => run(&plan, is_json),
        Err(message) => {
            eprintln!("train: {message}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("train: {message}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Result<Wanted> {
    let mut plan = Plan { is_quick: false, threads: 1 };
    let mut is_json = false;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--help" | "-h" | "help" => return Ok(Wanted::Help),
            "--quick" => plan.is_quick = true,
            "--json" => is_json = true,
            "--threads" => {
                let value = rest.next().ok_or("--threads needs a value")?;
                let threads = value.parse().ok().filter(|&threads| threads > 0);
                plan.threads = threads.ok_or_else(|| format!("--threads needs a number above 0, not {value:?}"))?;
            }
            other => return Err(format!("{other:?} is not known")),
        }
    }
    Ok(Wanted::Plan { plan, is_json })
}

fn run(plan: &Plan, is_json: bool) -> Result<()> {
    let sections = measure::all(plan, |line| eprintln!("{line}"))?;
    if is_json {
        println!("{}", table::json(&sections)?);
    } else {
        print!("{}", table::text(&sections)?);
    }
    let differing: Vec<String> = sections.iter().flat_map(measure::Section::differing).collect();
    if differing.is_empty() { Ok(()) } else { Err(format!("the losses differ: {}", differing.join(", "))) }
}
