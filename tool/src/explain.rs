//! `lastuse explain`: why graphs need their memory, and what would lower it.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{BufferSpec, GraphPlan, Rules, TensorId};
use lastuse::placement::Bytes;
use lastuse::report::explain::{DEFAULT_TOP, DEFAULT_TRIALS, Explanation, PlannedGraph, explain, explanation_text};

use crate::input::{Input, expanded};
use crate::output::{Progress, counted, print, print_error};
use crate::planning::{self, check, find_buffer};
use crate::report::{explanation_json, explanation_summary, planned_bytes};
use crate::usage::Failure;

/// Explain what is live at the peak of a graph, and what lowers it.
///
/// For each buffer: the peak, which is the step with the most live bytes; the tensors that are live there, largest first,
/// with their bytes, their definition and their last use; fragmentation; memory reused in place; what ggml-alloc needs; and
/// the single changes that would lower the peak most. Each change has been tried: the graph is changed in memory, and
/// planned again. Savings are those of each change alone, and do not add up.
///
/// Steps are counted from 0: step 7 runs ggml_graph_node(graph, 7). Sizes are padded to the alignment of the buffer.
/// Memory that several tensors share is listed once, with all tensors that are live in it at the peak.
///
/// For a folder with several graphs a table is printed, one line a graph, the largest first, and the explanation of
/// that.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lastuse explain llama.jsonl                 the peak of a graph
  lastuse explain graphs                      a folder: a table, and the largest
  lastuse explain --all graphs                each graph in a folder
  lastuse explain --buffer CPU llama.jsonl    one buffer, by name or number
  lastuse explain --rules ggml llama.jsonl    what would each rule save?
  lastuse explain --retain '*' llama.jsonl    if every value stays readable
  lastuse explain --json llama.jsonl          JSON, for programs

Exit codes: 0 all explained, 1 a file is malformed, cannot be read or has no such buffer, 2 wrong usage.")]
pub struct Arguments {
    /// The graphs (*.jsonl, *.jsonl.gz), or folders of them; "-" is the standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// Explain each graph of a folder.
    #[arg(long)]
    all: bool,

    /// Print JSON, format "lastuse-explanation", one graph a line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    planning: planning::Options,

    /// The work limit for trying changes: the number of tensors and buffers of changed graphs to plan.
    ///
    /// The default is enough for every change in a graph of some thousand tensors. If it is too low to try all changes, the
    /// explanation ends with a note.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_TRIALS)]
    trials: u64,

    /// Explain only the buffer with this name, or with this number, counted from 0.
    #[arg(long, value_name = "NAME|N")]
    buffer: Option<String>,

    /// The number of tensors to list at each peak; the others are summed up. JSON has all.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_TOP)]
    top: usize,
}

/// Explains every file. A file that cannot be read does not stop the others.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut code = ExitCode::SUCCESS;
    let several = expanded(&arguments.files).len() > 1;
    let mut number = 0;
    for argument in &arguments.files {
        let files = expanded(std::slice::from_ref(argument));
        let is_summed_up = files.len() > 1 && !arguments.all && !arguments.json;
        let mut explained = Vec::new();
        for file in &files {
            match explain_file(file, arguments) {
                Ok(explanation) if is_summed_up => explained.push((file.display().to_string(), explanation)),
                Ok(explanation) => {
                    let name = file.display().to_string();
                    print(formatted(&name, &explanation, arguments, several, number)?.as_bytes())?;
                    number += 1;
                }
                Err(message) => {
                    print_error(&format!("{}: {message}", file.display()));
                    code = ExitCode::FAILURE;
                }
            }
        }
        if is_summed_up {
            print(summed_up(explained, arguments, number)?.as_bytes())?;
            number += 1;
        }
    }
    Ok(code)
}

/// Formats the graphs of a folder as a table, the largest first, with the explanation of that.
fn summed_up(
    mut explained: Vec<(String, Explanation)>,
    arguments: &Arguments,
    number: usize,
) -> Result<String, String> {
    explained.sort_by_key(|(_, explanation)| Reverse(planned_bytes(explanation)));
    let gap = if number > 0 { "\n" } else { "" };
    let Some((file, largest)) = explained.first() else { return Ok(String::new()) };
    let graphs = counted(explained.len() as u64, "graph");
    let table = explanation_summary(&explained);
    let text = formatted(file, largest, arguments, true, 1)?;
    Ok(format!("{gap}{graphs}, the largest first; it is explained below, and all with --all\n\n{table}{text}"))
}

fn formatted(
    file: &str,
    explanation: &Explanation,
    arguments: &Arguments,
    several: bool,
    number: usize,
) -> Result<String, String> {
    if arguments.json {
        return explanation_json(explanation).map(|json| json + "\n").map_err(|error| error.to_string());
    }
    let text = explanation_text(explanation, arguments.top);
    let gap = if number > 0 { "\n" } else { "" };
    Ok(if several { format!("{gap}{file}: {text}") } else { text })
}

/// Explains the graph with the largest plan, as its program planned it; `None` without graphs.
///
/// # Errors
/// One of the files is malformed or cannot be read.
pub fn largest(files: &[PathBuf]) -> Result<Option<Explanation>, String> {
    let mut largest: Option<(Bytes, Snapshot, GraphPlan)> = None;
    for file in files {
        let in_file = |message: String| format!("{}: {message}", file.display());
        let snapshot = Input::read_graph(file).map_err(in_file)?;
        let plan = snapshot.plan_as_recorded().map_err(|error| in_file(error.to_string()))?;
        let bytes = plan.bytes();
        if largest.as_ref().is_none_or(|(most, ..)| bytes > *most) {
            largest = Some((bytes, snapshot, plan));
        }
    }
    let Some((_, snapshot, plan)) = largest else { return Ok(None) };
    check(&snapshot, &plan)?;
    Ok(Some(explain_planned(&snapshot, &snapshot.recorded_buffers(), &plan, DEFAULT_TRIALS)))
}

/// Explains a graph as it was planned, with the work limit `trials` for trying changes.
pub fn explain_planned(snapshot: &Snapshot, buffers: &[BufferSpec], plan: &GraphPlan, trials: u64) -> Explanation {
    let same_memory: Vec<TensorId> = (0..).take(snapshot.tensors.len()).collect();
    // A file does not record the devices of its buffers.
    let allowed = vec![Rules::ALL; buffers.len()];
    explain(PlannedGraph { snapshot, buffers, allowed: &allowed, same_memory: &same_memory, plan, trials })
}

fn explain_file(file: &Path, arguments: &Arguments) -> Result<Explanation, String> {
    let progress = Progress::start(file);
    let snapshot = arguments.planning.retain_in(Input::read_graph(file)?);
    let buffer = arguments.buffer.as_deref().map(|buffer| find_buffer(&snapshot, buffer)).transpose()?;
    progress.set("planning");
    let buffers = arguments.planning.buffers(&snapshot);
    let plan = snapshot.plan_in(&buffers).map_err(|error| error.to_string())?;
    progress.set("checking");
    check(&snapshot, &plan)?;
    progress.set("explaining");
    let mut explanation = explain_planned(&snapshot, &buffers, &plan, arguments.trials);
    explanation.buffers.retain(|found| buffer.is_none_or(|id| found.id == id));
    Ok(explanation)
}
