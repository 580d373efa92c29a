//! `lastuse plan`: plans captured graphs and compares the plans with what ggml's own allocator needed.

use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::ValueEnum;
use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{GraphPlan, Rules, simulate};
use lastuse::placement::{Bytes, validate};
use lastuse::report::{PlanRow, plan_json, plan_table};

use super::reorder;

/// Plan graphs from files in the format "lastuse-graph" (one JSON object a line).
///
/// Prints a table: file, nodes, blocks, the bytes that ggml's own allocator needed (where the file says so), the bytes
/// of the plan, the lower bound, and the time to plan. Every plan is checked by two validators before it is shown.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lastuse plan llama.jsonl               one graph
  lastuse plan graphs/*.jsonl            many, with a summary
  lastuse plan --json llama.jsonl        where every tensor goes
  lastuse plan --lifetimes ggml *.jsonl  without the reuse that ggml does not do
  lastuse plan --reorder graphs/*.jsonl  in a better order of the nodes, where there is one

Exit codes: 0 all planned, 1 a file is malformed or cannot be read, 2 wrong usage.")]
pub struct Arguments {
    /// The graphs; "-" is the standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// Print the plans as JSON, format "lastuse-plan", one a line.
    #[arg(long)]
    json: bool,

    /// Whose rules say when memory may be shared.
    #[arg(long, value_enum, default_value = "lastuse")]
    lifetimes: Lifetimes,

    #[command(flatten)]
    reorder: reorder::Arguments,
}

#[derive(Clone, Copy, ValueEnum)]
enum Lifetimes {
    /// All that is right.
    Lastuse,
    /// What ggml's own allocator does.
    Ggml,
}

impl Lifetimes {
    fn rules(self) -> Rules {
        match self {
            Self::Lastuse => Rules::ALL,
            Self::Ggml => Rules::GGML,
        }
    }
}

/// How often a graph is planned for the time in the table, which is the median.
const RUNS: usize = 5;

/// Plans every file; one that is wrong does not keep the others from being planned.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let mut rows = Vec::new();
    let mut code = ExitCode::SUCCESS;
    let progress = io::stderr().is_terminal() && arguments.files.len() > 1;
    for (number, file) in arguments.files.iter().enumerate() {
        if progress {
            eprint!("\r{}/{}", number + 1, arguments.files.len());
        }
        match plan_file(file, arguments) {
            Ok(Shown::Row(row)) => rows.push(row),
            Ok(Shown::Json(json)) => print(&format!("{json}\n"))?,
            Err(message) => {
                // Not eprintln: it panics when nobody reads the messages any more.
                let _ = writeln!(io::stderr(), "lastuse: {}: {message}", file.display());
                code = ExitCode::FAILURE;
            }
        }
    }
    if progress {
        eprint!("\r");
    }
    if !rows.is_empty() {
        print(&plan_table(&rows))?;
    }
    Ok(code)
}

enum Shown {
    Row(PlanRow),
    Json(String),
}

fn plan_file(file: &Path, arguments: &Arguments) -> Result<Shown, String> {
    let mut snapshot = read(file)?;
    let rules = arguments.lifetimes.rules();
    let reordering = arguments.reorder.apply(&mut snapshot, rules)?;
    let (plan, microseconds) = timed_plan(&snapshot, rules, if arguments.json { 1 } else { RUNS })?;
    check(&snapshot, &plan)?;
    if arguments.json {
        return plan_json(&snapshot, &plan, reordering.as_ref()).map(Shown::Json).map_err(|error| error.to_string());
    }
    Ok(Shown::Row(PlanRow {
        file: file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned(),
        nodes: snapshot.graph.nodes().len(),
        blocks: plan.problems.iter().map(|problem| problem.blocks().len()).sum(),
        ggml_alloc: snapshot.buffers.iter().try_fold(0, |sum: Bytes, buffer| sum.checked_add(buffer.ggml_alloc_size?)),
        bytes: plan.pools.iter().map(|pool| pool.placement.size()).fold(0, Bytes::saturating_add),
        given_bound: reordering.map(|found| found.given_bound()),
        lower_bound: plan.pools.iter().map(|pool| pool.lower_bound).fold(0, Bytes::saturating_add),
        microseconds,
    }))
}

fn read(file: &Path) -> Result<Snapshot, String> {
    let snapshot = if file == Path::new("-") {
        Snapshot::read(io::stdin().lock())
    } else {
        Snapshot::read(BufReader::new(File::open(file).map_err(|error| error.to_string())?))
    };
    snapshot.map_err(|malformed| malformed.to_string())
}

fn timed_plan(snapshot: &Snapshot, rules: Rules, runs: usize) -> Result<(GraphPlan, f64), String> {
    let mut times = Vec::with_capacity(runs);
    loop {
        let start = Instant::now();
        let plan = snapshot.plan(rules).map_err(|error| error.to_string())?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
        if times.len() >= runs {
            times.sort_by(f64::total_cmp);
            return Ok((plan, times[times.len() / 2]));
        }
    }
}

/// A plan that is wrong is a defect of lastuse, and must never be shown as one that is right.
fn check(snapshot: &Snapshot, plan: &GraphPlan) -> Result<(), String> {
    for (problem, pool) in plan.problems.iter().zip(&plan.pools) {
        validate(problem, &pool.placement).map_err(|defect| format!("the plan is wrong: {defect}"))?;
    }
    let nbytes: Vec<_> = snapshot.tensors.iter().map(|tensor| tensor.nbytes).collect();
    simulate(&snapshot.graph, plan, &nbytes).map_err(|corruption| format!("the plan is wrong: {corruption}"))
}

/// Prints to the standard output. That its reader has seen enough (a pipe to `head`) is no failure.
fn print(text: &str) -> Result<(), String> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("cannot print: {error}")),
        _ => Ok(()),
    }
}
