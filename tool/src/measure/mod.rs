//! `lastuse measure`: what a program would hold on each device, without memory for it.

mod causes;
mod dry_run;
mod levers;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

pub use causes::Copies;
use dry_run::setting;
pub use dry_run::{DryRun, Request};
use lastuse::settings::OnDemand;
use levers::{Lever, Tried};
pub use report::MEASUREMENT;
use report::Report;

use crate::launch::{FAILED, NotStarted, Target};
use crate::output::{Output, print_error, print_notice, print_tables};
use crate::settings::{GuardUse, Settings};
use crate::usage::Failure;

/// Tell what a program would hold on each device, without loading it.
///
/// Starts the unmodified program with these arguments for a dry run: it reads the header of its model, creates its contexts and
/// reserves its graphs as ever, but its buffers take no memory, weights are not read, and nothing is computed. The graphs of each
/// context, with which programs warm it up, are left out; so draft models and projectors are loaded too. It is ended as soon as
/// nothing new is allocated: when it waits for a request, would write a file of results, or goes on to compute the same graphs.
///
/// Prints what each device would hold, in the classes of "lastuse run", exactly as the run itself would report it, and the largest
/// buffer; below that what ggml-alloc would need, and what takes memory only as it is used (caches on the CPU). Then whether that
/// fits the free memory that the device reports.
///
/// --why tells what the bytes are for, and which options lower them: each is tried by another dry run.
///
/// What the program prints is not shown, and its input is empty.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lastuse measure ./llama-server -m model.gguf -c 32768 -ngl 20
  lastuse measure --why ./llama-server -m model.gguf   what for, and what helps
  lastuse measure --bytes --json ./whisper-cli -m ggml-base.bin -f a.wav
  lastuse measure --budget 96MiB ./llama-cli -m model.gguf -fa off -c 32768

Exit codes: 0 measured, 125 wrong usage, lastuse failed, or the program does something whose outcome is not known without results, 126 \
the program is not executable, 127 there is no such program; that of the program if it fails before it computes anything.")]
pub struct Arguments {
    /// Tell what the bytes are for, and which options of the program or of lastuse lower them.
    #[arg(long)]
    why: bool,

    #[command(flatten)]
    settings: Settings,

    /// Print sizes in bytes instead of MiB.
    #[arg(long)]
    bytes: bool,

    /// Print JSON, format "lastuse-measurement", instead of the table.
    #[arg(long)]
    json: bool,

    /// Write to this file instead of the standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print how the program is started, and its messages.
    #[arg(short, long)]
    verbose: bool,

    #[command(flatten)]
    target: Target,
}

/// Measures a program.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    measure(arguments).map_err(|why| Failure::with_code(why.code, why.message))
}

fn measure(arguments: &Arguments) -> Result<ExitCode, NotStarted> {
    let settings = arguments.settings.variables().map_err(NotStarted::failed)?;
    let output = arguments.output.as_ref().map(|file| Output::open(file)).transpose().map_err(NotStarted::failed)?;
    let mut launcher = arguments.target.launcher()?;
    launcher.guard(if arguments.why { GuardUse::IfThere } else { GuardUse::of(&settings) })?;
    launcher.measure()?;
    if arguments.verbose {
        print_notice(&launcher.describe());
    }
    let request = Request { settings: &settings, more: &[], captures: None, is_verbose: arguments.verbose };
    let dry_run = DryRun::new(&mut launcher, &request)?;
    let tried: Vec<Tried> = if arguments.why {
        Lever::of(&dry_run).iter().filter_map(|lever| lever.tried(&mut launcher, &request, &dry_run)).collect()
    } else {
        Vec::new()
    };
    let name = launcher.name();
    let defers_caches = defers_caches(&settings);
    let report = Report { program: &name, dry_run: &dry_run, explains: arguments.why, tried: &tried, defers_caches };
    let text = if arguments.json { report.json() } else { report.text(arguments.bytes) };
    let written = match output {
        Some(output) => output.write(anstream::adapter::strip_str(&text).to_string().as_bytes()),
        None => print_tables(&text),
    };
    written.map_err(NotStarted::failed)?;
    Ok(match dry_run.unknown() {
        Some(end) => {
            print_error(&format!("{name} was not measured to its end: {}", end.why));
            ExitCode::from(FAILED)
        }
        None => ExitCode::SUCCESS,
    })
}

/// Returns whether caches take memory as they are filled, by the settings of a run or the environment.
fn defers_caches(settings: &[(&'static str, String)]) -> bool {
    setting(settings, "LASTUSE_ON_DEMAND").parse().unwrap_or(OnDemand::default()).caches
}
