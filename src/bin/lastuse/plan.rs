//! `lastuse plan`: plans captured graphs and compares the plans with what ggml's own allocator needed; places the
//! blocks of CSV files.

mod problem;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{BufferPlan, BufferSpec, GraphPlan, RuleSetting};
use lastuse::placement::{Bytes, Effort};
use lastuse::report::{PlanRow, ProblemRow, Verdict, plan_json, plan_table, problem_table};

use super::input::Input;
use super::planning::{buffers, check};
use super::print::{complain, print};
use super::progress::Progress;
use super::reorder;

/// Plan graphs from files in the format "lastuse-graph" (one JSON object a line), compressed by gzip or not, or problems
/// from CSV files.
///
/// Prints a table: file, nodes, blocks, the bytes that ggml's own allocator needed (where the file says so), the bytes
/// of the plan, the lower bound, and the time to plan. Every plan is checked by two validators before it is shown.
///
/// CSV files are those of MiniMalloc: a header, then a block in each row. Columns, in any order: id (or buffer,
/// buffer_id), any text; lower (or begin, start), the first step of the live range; upper, the first step after it, or
/// end, its last step; size, in bytes; and, where wanted, alignment, a power of two. A column hint is not used, since
/// it says nothing about which offsets are right; a column gaps must be empty; a column offset is replaced: the offsets
/// of an earlier plan bind nothing. The table has the file, blocks, capacity, the bytes of the placement (sizes are
/// padded to the alignment), the lower bound, the time, and the outcome.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lastuse plan llama.jsonl               one graph
  lastuse plan graphs/*.jsonl            many, with a summary
  lastuse plan --json llama.jsonl        where every tensor goes
  lastuse plan --rules ggml *.jsonl      without the reuse that ggml does not do
  lastuse plan -o offsets.csv blocks.csv            the smallest placement of a problem
  lastuse plan --capacity 1048576 -o - blocks.csv   any placement within 1 MiB
  lastuse plan --reorder graphs/*.jsonl  in a better order of the nodes, where there is one
  lastuse plan --effort 1000000000 llama.jsonl      seconds of searching, where the quick plan is above the bound

Exit codes: 0 all planned, 1 a file is malformed or cannot be read, 2 wrong usage, 3 there is no placement within the
capacity, which is proven, 4 none was found within the effort, and none is proven not to be there. Of several files 1
comes before 4, and 4 before 3.")]
pub struct Arguments {
    /// The graphs and problems; "-" is the standard input. What is named *.csv or starts with a header is CSV.
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// Print the plans as JSON, format "lastuse-plan", one a line.
    #[arg(long)]
    json: bool,

    /// Which memory may be shared: all, ggml (as ggml's own allocator does), none, or the names of rules, with no- before
    /// those to leave out; for example "no-unread-inputs" or "ggml,views". Rules: in-place, views, rows, copies, concat,
    /// oldest-source, unread-inputs, inactive. Every buffer is planned as one of a CPU.
    ///
    /// When nothing is said, a graph that a program has written itself is planned with the rules of the program, and any
    /// other with "all".
    #[arg(long)]
    rules: Option<RuleSetting>,

    /// How much work the search for a smaller placement may do. A core does some hundreds of millions of units a
    /// second.
    ///
    /// When nothing is said it is what the program took for graphs that a program has written itself, 100000 units for
    /// others, which is what programs take by default, and 1000000000 for CSV files; 0 is no search. The same effort always gives the same answer. A graph may take it several times: for each
    /// buffer, for other rules of sharing, and with --reorder for each order that is planned. Its table then says
    /// whether the plan is proven to be the smallest with its live ranges, as the JSON always does.
    #[arg(long, value_name = "UNITS")]
    effort: Option<u64>,

    #[command(flatten)]
    reorder: reorder::Arguments,

    #[command(flatten)]
    problem: problem::Options,
}

/// How often a graph is planned for the time in the table, which is the median.
const RUNS: usize = 5;

/// What takes longer is not done again.
const LONG: Duration = Duration::from_millis(20);

/// There is no placement within the capacity.
const INFEASIBLE: u8 = 3;
/// None was found within the effort.
const NOT_FOUND: u8 = 4;

/// Plans every file; one that is wrong does not keep the others from being planned.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    if arguments.problem.wants_one_file() && arguments.files.len() > 1 {
        complain("--output takes the rows of one file; see --help");
        return Ok(ExitCode::from(2));
    }
    let mut shown = Vec::new();
    let mut is_wrong = false;
    let progress = io::stderr().is_terminal() && arguments.files.len() > 1;
    for (number, file) in arguments.files.iter().enumerate() {
        if progress {
            eprint!("\r{}/{}", number + 1, arguments.files.len());
        }
        match plan_file(file, arguments) {
            Ok(Shown::Json(json)) => print(format!("{json}\n").as_bytes())?,
            Ok(row) => shown.push(row),
            Err(message) => {
                complain(&format!("{}: {message}", file.display()));
                is_wrong = true;
            }
        }
    }
    if progress {
        eprint!("\r");
    }
    let tables = Tables::of(shown);
    if !arguments.problem.prints_rows() {
        tables.print()?;
    }
    Ok(if is_wrong { ExitCode::FAILURE } else { tables.code() })
}

enum Shown {
    Graph(PlanRow),
    Problem(ProblemRow),
    Json(String),
}

/// What is printed when all files are planned.
#[derive(Default)]
struct Tables {
    graphs: Vec<PlanRow>,
    problems: Vec<ProblemRow>,
}

impl Tables {
    fn of(shown: Vec<Shown>) -> Self {
        let mut tables = Self::default();
        for shown in shown {
            match shown {
                Shown::Graph(row) => tables.graphs.push(row),
                Shown::Problem(row) => tables.problems.push(row),
                Shown::Json(_) => {}
            }
        }
        tables
    }

    fn print(&self) -> Result<(), String> {
        let mut text = String::new();
        if !self.graphs.is_empty() {
            text.push_str(&plan_table(&self.graphs));
        }
        if !self.graphs.is_empty() && !self.problems.is_empty() {
            text.push('\n');
        }
        if !self.problems.is_empty() {
            text.push_str(&problem_table(&self.problems));
        }
        print(text.as_bytes())
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

fn plan_file(file: &Path, arguments: &Arguments) -> Result<Shown, String> {
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    let progress = Progress::start(file);
    match Input::read(file)? {
        Input::Graph(snapshot) => {
            arguments.problem.refuse_graph().and_then(|()| plan_graph(name, snapshot, arguments, &progress))
        }
        Input::Problem(_) if arguments.json => {
            Err("--json is for graphs; --output writes the rows of a CSV file with their offsets".to_owned())
        }
        Input::Problem(sheet) => {
            let effort = arguments.effort.map(Effort::units);
            problem::plan(name, &sheet, &arguments.problem, effort, &progress).map(Shown::Problem)
        }
    }
}

fn plan_graph(
    file: String,
    mut snapshot: Snapshot,
    arguments: &Arguments,
    progress: &Progress,
) -> Result<Shown, String> {
    let buffers = buffers(&snapshot, arguments.rules.as_ref(), arguments.effort);
    progress.go_on("planning");
    let reordering = arguments.reorder.apply(&mut snapshot, &buffers)?;
    let (plan, microseconds) = timed_plan(&snapshot, &buffers, if arguments.json { 1 } else { RUNS })?;
    progress.go_on("checking");
    check(&snapshot, &plan)?;
    if arguments.json {
        return plan_json(&snapshot, &plan, reordering.as_ref()).map(Shown::Json).map_err(|error| error.to_string());
    }
    Ok(Shown::Graph(PlanRow {
        file,
        nodes: snapshot.graph.nodes().len(),
        blocks: plan.problems.iter().map(|problem| problem.blocks().len()).sum(),
        ggml_alloc: snapshot.buffers.iter().try_fold(0, |sum: Bytes, buffer| sum.checked_add(buffer.ggml_alloc_size?)),
        bytes: plan.buffers.iter().map(|buffer| buffer.placement.size()).fold(0, Bytes::saturating_add),
        given_bound: reordering.map(|found| found.given_bound()),
        lower_bound: plan.buffers.iter().map(|buffer| buffer.lower_bound).fold(0, Bytes::saturating_add),
        microseconds,
        verdict: arguments.effort.map(|_| Verdict::of_smallest(plan.buffers.iter().all(BufferPlan::is_optimal))),
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
