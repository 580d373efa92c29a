//! `lastuse check`: is the plan of a file right for the graph of a file?

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use lastuse::graph::snapshot::{PlanFile, Snapshot, check};
use lastuse::report::{check_json, check_text};

use super::progress::Progress;

/// Check a plan from a file in the format "lastuse-plan" against its graph from a file in the format "lastuse-graph", each
/// compressed by gzip or not.
///
/// The plan may come from anywhere: nothing of what makes plans here is used. Sizes must be large enough, offsets aligned,
/// and tensors inside of their chunks; then the graph runs in thought, with an eye on whose value each byte holds. Prints OK
/// and the numbers, or everything that is wrong, with names, steps and bytes.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lastuse plan --json llama.jsonl > plan.json
  lastuse check llama.jsonl plan.json            is it right?
  lastuse check --json llama.jsonl plan.json     the answer as JSON, format \"lastuse-check\"

Exit codes: 0 the plan is right, 1 a file is malformed or cannot be read, 2 wrong usage, 3 the plan is wrong.")]
pub struct Arguments {
    /// The graph.
    graph: PathBuf,

    /// The plan: a single one.
    plan: PathBuf,

    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// The plan is wrong.
const WRONG: u8 = 3;

/// Checks the plan, and prints what was found.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let Arguments { graph, plan, json } = arguments;
    let progress = Progress::start(graph);
    let snapshot = Snapshot::open(graph).map_err(|error| format!("{}: {error}", graph.display()))?;
    let plan = PlanFile::open(plan).map_err(|error| format!("{}: {error}", plan.display()))?;
    progress.go_on("checking");
    let defects = check(&snapshot, &plan);
    drop(progress);
    let text = if *json {
        check_json(&snapshot, &plan, &defects).map_err(|error| error.to_string())? + "\n"
    } else {
        check_text(&snapshot, &plan, &defects)
    };
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("cannot print: {error}")),
        _ if defects.is_empty() => Ok(ExitCode::SUCCESS),
        _ => Ok(ExitCode::from(WRONG)),
    }
}
