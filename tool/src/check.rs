//! `lastuse check`: whether a plan from a file is valid for a graph from a file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::foreign::Foreign;
use crate::formats::{PlanFile, check};
use crate::input::Input;
use crate::output::{Progress, print};
use crate::report::{check_json, check_text};
use crate::usage::Failure;

/// Check that a plan is valid for its graph.
///
/// The plan is a file in the format "lastuse-plan", the graph one in the format "lastuse-graph", each compressed by gzip or
/// not. The check shares no code with the planner, so plans from any source can be checked. Sizes must be large enough,
/// offsets aligned, and tensors inside their chunks; then the graph is simulated, tracking which value each byte holds.
/// Prints OK and the sizes, or every defect with names, steps and bytes.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lastuse plan --json llama.jsonl > plan.json
  lastuse check llama.jsonl plan.json            check the plan
  lastuse check --json llama.jsonl plan.json     JSON, format \"lastuse-check\"

Exit codes: 0 the plan is valid, 1 a file is malformed or cannot be read, 2 wrong usage, 3 the plan is invalid.")]
pub struct Arguments {
    /// The graph.
    graph: PathBuf,

    /// The plan: a single one.
    plan: PathBuf,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// The exit code for an invalid plan.
const INVALID: u8 = 3;

/// Checks the plan, and prints the result.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let Arguments { graph, plan, json } = arguments;
    let progress = Progress::start(graph);
    let snapshot = Input::read_graph(graph).map_err(|message| format!("{}: {message}", graph.display()))?;
    let plan = read_plan(plan).map_err(|message| format!("{}: {message}", plan.display()))?;
    progress.set("checking");
    let defects = check(&snapshot, &plan);
    drop(progress);
    let text = if *json {
        check_json(&snapshot, &plan, &defects).map_err(|error| error.to_string())? + "\n"
    } else {
        check_text(&snapshot, &plan, &defects)
    };
    print(text.as_bytes())?;
    Ok(if defects.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(INVALID) })
}

fn read_plan(file: &Path) -> Result<PlanFile, String> {
    if let Some(foreign) = Foreign::of_file(file) {
        return Err(format!("this is {}, not a plan: \"lastuse plan --json GRAPH\" prints one", foreign.name));
    }
    PlanFile::open(file).map_err(|malformed| malformed.to_string())
}
