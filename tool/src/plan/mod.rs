//! `lastuse plan`: plans captured graphs, and places the blocks of CSV files.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{BufferPlan, BufferSpec, GraphPlan};
use lastuse::placement::{Bytes, Effort};

use crate::formats::plan_json;
use crate::input::{Input, expanded};
use crate::output::{Progress, print, print_tables, titled};
use crate::passes::{RecomputeOptions, ReorderOptions, TilingOptions};
use crate::planning::{self, check};
use crate::report::{PlanRow, ProblemRow, RecomputedRow, TilingRow, Verdict, plan_table, problem_table};
use crate::usage::Failure;

mod problem;
mod steps;

/// Plan graphs or placement problems, and print their bytes.
///
/// Graphs are in the format "lastuse-graph" (one JSON object per line), compressed by gzip or not. Prints a table: file,
/// nodes, blocks, bytes with ggml-alloc (if recorded in the file), bytes of the plan, lower bound, ratio lastuse /
/// ggml-alloc (lower is better), and microseconds to plan. Every plan is checked by two validators before it is shown.
///
/// For CSV files, --effort is 1000000000 by default. With --effort the table has a column "outcome": whether the plan is proven to be the smallest with its live ranges. With
/// --recompute it has the nodes that run again, and the floating-point operations in relation to the given graph; with --tile the
/// tensors that are computed in tiles, the tiles of the one with the most, and the number of added nodes. ggml-alloc's
/// bytes stay those of the given graph.
///
/// Placement problems are CSV files as MiniMalloc has them: a header, then one block per row. Columns, in any order: id (or
/// buffer, buffer_id), any text; lower (or begin, start), the first step of the live range; upper, the first step after it,
/// or end, its last step; size, in bytes; and optionally alignment, a power of two. A column hint is ignored; a column gaps
/// must be empty; a column offset is replaced. The table has file, blocks, capacity, bytes of the placement (sizes are
/// padded to the alignment), lower bound, milliseconds, and outcome.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lastuse plan llama.jsonl                 one graph
  lastuse plan graphs                      a folder of graphs, with a summary
  lastuse plan --json llama.jsonl          the offset of every tensor
  lastuse plan --rules ggml graphs         with the sharing of ggml-alloc only
  lastuse plan --reorder graphs            in a better order, if there is one
  lastuse plan --recompute 40% train.jsonl    computed again to fit a budget
  lastuse plan --tile 700M vae.jsonl      tiling
  lastuse plan --steps 4 training.jsonl    in 4 steps, one after the other
  lastuse plan --retain 'l_out-*' llama.jsonl   results stay readable
  lastuse plan --effort 1000000000 llama.jsonl  search for seconds
  lastuse plan -o offsets.csv blocks.csv   the smallest placement of a problem
  lastuse plan --capacity 1048576 -o - blocks.csv   any within 1 MiB

Exit codes: 0 all planned, 1 a file is malformed or cannot be read, or no graph fits --tile or --recompute, 2 wrong usage, or an \
option that is not for this kind of file, 3 it is proven that no placement \
fits the capacity, 4 none was found within the effort, and nothing is proven. With several files, 2 takes \
precedence over 1, 1 over 4, and 4 over 3.")]
pub struct Arguments {
    /// The files, or folders of graphs; "-" is the standard input
    ///
    /// A file named *.csv, or one that starts with a header, is CSV. From a folder, *.jsonl and *.jsonl.gz are taken.
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// Print the plans as JSON, format "lastuse-plan", one per line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    planning: planning::Options,

    #[command(flatten)]
    recompute: RecomputeOptions,

    #[command(flatten)]
    reorder: ReorderOptions,

    #[command(flatten)]
    tiling: TilingOptions,

    #[command(flatten)]
    steps: steps::Arguments,

    #[command(flatten)]
    problem: problem::Options,
}

impl Arguments {
    /// Fails if plans are to be printed whose tensors no file has.
    fn check_json(&self) -> Result<(), String> {
        let adding = [("recompute", self.recompute.is_set()), ("tile", self.tiling.is_set())];
        match adding.iter().find(|(_, is_set)| self.json && *is_set) {
            Some((pass, _)) => Err(format!(
                "--json is for the tensors of the file, not for those that --{pass} adds: write the graph with lastuse convert \
                 --{pass}, and plan that"
            )),
            None => Ok(()),
        }
    }
}

/// How many times a graph is planned for the time in the table, which is the median.
const RUNS: usize = 5;

/// A plan that takes longer is not repeated.
const LONG: Duration = Duration::from_millis(20);

/// The exit code if it is proven that no placement fits the capacity.
const INFEASIBLE: u8 = 3;
/// The exit code if no placement was found within the effort.
const NOT_FOUND: u8 = 4;

/// Plans every file. A file that cannot be read does not stop the others.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let files = expanded(&arguments.files);
    arguments.problem.check_usage(files.len()).map_err(Failure::usage)?;
    arguments.check_json().map_err(Failure::usage)?;
    let mut rows = Vec::new();
    let mut failed = None;
    let progress = io::stderr().is_terminal() && files.len() > 1;
    for (number, file) in files.iter().enumerate() {
        if progress {
            eprint!("\r{}/{}", number + 1, files.len());
        }
        match plan_file(file, arguments) {
            Ok(Planned::Json(json)) => print(format!("{json}\n").as_bytes())?,
            Ok(Planned::Steps(table)) => print(table.as_bytes())?,
            Ok(row) => rows.push(row),
            Err(failure) => failed = failed.max(Some(failure.of_file(file).report_code())),
        }
    }
    if progress {
        eprint!("\r");
    }
    let tables = Tables::of(rows);
    if !arguments.problem.prints_rows() {
        tables.print()?;
    }
    Ok(failed.map_or_else(|| tables.code(), ExitCode::from))
}

/// A planned file.
enum Planned {
    Graph(PlanRow),
    Problem(ProblemRow),
    Json(String),
    Steps(String),
}

/// The tables that are printed when all files are planned.
#[derive(Default)]
struct Tables {
    graphs: Vec<PlanRow>,
    problems: Vec<ProblemRow>,
}

impl Tables {
    fn of(rows: Vec<Planned>) -> Self {
        let mut tables = Self::default();
        for row in rows {
            match row {
                Planned::Graph(row) => tables.graphs.push(row),
                Planned::Problem(row) => tables.problems.push(row),
                Planned::Json(_) | Planned::Steps(_) => {}
            }
        }
        tables
    }

    fn print(&self) -> Result<(), String> {
        let mut text = String::new();
        if !self.graphs.is_empty() {
            text.push_str(&titled(&plan_table(&self.graphs)));
        }
        if !self.graphs.is_empty() && !self.problems.is_empty() {
            text.push('\n');
        }
        if !self.problems.is_empty() {
            text.push_str(&titled(&problem_table(&self.problems)));
        }
        print_tables(&text)
    }

    fn code(&self) -> ExitCode {
        let has = |verdict| self.problems.iter().any(|row| row.verdict == verdict);
        match () {
            () if has(Verdict::NotFound) => ExitCode::from(NOT_FOUND),
            () if has(Verdict::Infeasible) => ExitCode::from(INFEASIBLE),
            () => ExitCode::SUCCESS,
        }
    }
}

fn plan_file(file: &Path, arguments: &Arguments) -> Result<Planned, Failure> {
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    let progress = Progress::start(file);
    match Input::read(file)? {
        Input::Graph(snapshot) => {
            let snapshot = arguments.planning.retain_in(snapshot);
            arguments.problem.refuse_graph().map_err(Failure::wrong_kind)?;
            Ok(plan_graph(name, snapshot, arguments, &progress)?)
        }
        Input::Problem(_) if arguments.steps.steps.is_some() => Err(Failure::wrong_kind("--steps is for graphs")),
        Input::Problem(_) if arguments.recompute.is_set() => Err(Failure::wrong_kind(
            "--recompute is for graphs; the blocks of a CSV file have no nodes to compute again",
        )),
        Input::Problem(_) if arguments.tiling.is_set() => {
            Err(Failure::wrong_kind("--tile is for graphs; the blocks of a CSV file have no nodes to compute in tiles"))
        }
        Input::Problem(_) if arguments.json => {
            Err(Failure::wrong_kind("--json is for graphs; --output writes the rows of a CSV file with offsets"))
        }
        Input::Problem(_) if arguments.planning.retain.is_some() => Err(Failure::wrong_kind(
            "--retain is for graphs; the blocks of a CSV file have the live ranges of their rows",
        )),
        Input::Problem(_) if arguments.planning.rules.is_some() || arguments.reorder.is_set() => {
            Err(Failure::wrong_kind(
                "--rules and --reorder are for graphs; the blocks of a CSV file have the live ranges of their rows",
            ))
        }
        Input::Problem(sheet) => {
            let effort = arguments.planning.effort.map(Effort::units);
            Ok(problem::plan(name, &sheet, &arguments.problem, effort, &progress).map(Planned::Problem)?)
        }
    }
}

fn plan_graph(
    file: String,
    mut snapshot: Snapshot,
    arguments: &Arguments,
    progress: &Progress,
) -> Result<Planned, String> {
    let buffers = arguments.planning.buffers(&snapshot);
    let recomputation = arguments.recompute.apply(&mut snapshot, &buffers, progress)?;
    progress.set("planning");
    let reordering = arguments.reorder.apply(&mut snapshot, &buffers)?;
    let tiled = arguments.tiling.apply(&mut snapshot, &buffers, progress)?;
    if let Some(steps) = arguments.steps.steps {
        return steps::plan(&file, &mut snapshot, &buffers, steps).map(Planned::Steps);
    }
    let (plan, microseconds) = timed_plan(&snapshot, &buffers, if arguments.json { 1 } else { RUNS })?;
    progress.set("checking");
    check(&snapshot, &plan)?;
    if arguments.json {
        return plan_json(&snapshot, &plan, reordering.as_ref()).map(Planned::Json).map_err(|error| error.to_string());
    }
    Ok(Planned::Graph(PlanRow {
        file,
        nodes: snapshot.graph.nodes().len(),
        blocks: plan.problems.iter().map(|problem| problem.blocks().len()).sum(),
        ggml_alloc: snapshot.buffers.iter().try_fold(0, |sum: Bytes, buffer| sum.checked_add(buffer.ggml_alloc_size?)),
        bytes: plan.bytes(),
        given_bound: reordering.map(|found| found.given_bound()),
        lower_bound: plan.buffers.iter().map(|buffer| buffer.lower_bound).fold(0, Bytes::saturating_add),
        recomputed: recomputation.map(|found| RecomputedRow {
            nodes: found.again().count(),
            work_before: found.before.work,
            work_after: found.after.work,
        }),
        tiling: tiled.map(|found| TilingRow {
            before: found.before,
            tensors: found.tiled.len(),
            parts: found.tiled.iter().map(|tiled| tiled.tiles).max().unwrap_or(1),
            added: found.added_nodes(),
        }),
        microseconds,
        verdict: arguments
            .planning
            .effort
            .map(|_| Verdict::of_smallest(plan.buffers.iter().all(BufferPlan::is_optimal))),
    }))
}

fn timed_plan(snapshot: &Snapshot, buffers: &[BufferSpec], runs: usize) -> Result<(GraphPlan, f64), String> {
    let mut times = Vec::with_capacity(runs);
    loop {
        let start = Instant::now();
        let plan = snapshot.plan_in(buffers).map_err(|error| error.to_string())?;
        let time = start.elapsed();
        times.push(time.as_secs_f64() * 1e6);
        if times.len() >= runs || time > LONG {
            times.sort_by(f64::total_cmp);
            return Ok((plan, times[times.len() / 2]));
        }
    }
}
