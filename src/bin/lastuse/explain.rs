//! `lastuse explain`: why graphs need the memory that they need, and what would lower that.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{RuleSetting, Rules, TensorId};
use lastuse::report::explain::{
    DEFAULT_TOP, DEFAULT_TRIALS, Explanation, Subject, explain, explanation_json, explanation_text,
};

use super::input::Input;
use super::planning::{buffers, check};
use super::print::{complain, print};
use super::progress::Progress;

/// Explain why captured graphs need the memory that they need, and what would lower that.
///
/// For each buffer: the step at which the most bytes are alive, and the node that runs then; every tensor that is alive
/// there, with its bytes, its operation, the step that makes it and the last that reads it, the largest first; what is lost
/// to fragmentation; what was reused in place; what ggml's own allocator takes; and the single changes that would lower the
/// peak most. Each of these has been tried: the graph is changed in memory, and planned again. They are told with what
/// each saves alone, which is not to be added up.
///
/// Steps are counted from 0: step 7 is the run of ggml_graph_node(graph, 7). Sizes are padded to the alignment of the
/// buffer. Memory that several tensors share is listed once, with all that live in it at that step.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lastuse explain llama.jsonl                 why this graph needs its memory
  lastuse explain --top 5 graphs/*.jsonl.gz   the five largest tensors at the peak of each
  lastuse explain --buffer CPU llama.jsonl    one buffer, by its name or number
  lastuse explain --rules ggml llama.jsonl    planned as ggml does: what would each rule of lastuse save?
  lastuse explain --json llama.jsonl          the same for programs

Exit codes: 0 all explained, 1 a file is malformed or cannot be read, or has no such buffer, 2 wrong usage.")]
pub struct Arguments {
    /// The graphs, in the format "lastuse-graph", compressed by gzip or not; "-" is the standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// Print JSON, format "lastuse-explanation", one graph a line.
    #[arg(long)]
    json: bool,

    /// Which memory may be shared, as for lastuse plan. When nothing is said, a graph that a program has written itself is
    /// planned with the rules of the program, and any other with "all".
    #[arg(long)]
    rules: Option<RuleSetting>,

    /// How much work the search for a smaller placement may do, as for lastuse plan.
    #[arg(long, value_name = "UNITS")]
    effort: Option<u64>,

    /// How much work trying changes may take: so many tensors, and buffers, of changed graphs are planned.
    ///
    /// The default is enough for every change in a graph of some thousand tensors. Where it is too little for all, the
    /// explanation says so at its end.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_TRIALS)]
    trials: u64,

    /// Explain this buffer only: its number, counted from 0, or its name.
    #[arg(long, value_name = "NAME|N")]
    buffer: Option<String>,

    /// How many tensors to list at each peak; the rest is summed up. JSON has all.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_TOP)]
    top: usize,
}

/// Explains every file; one that is wrong does not keep the others from being explained.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let mut code = ExitCode::SUCCESS;
    let several = arguments.files.len() > 1;
    for (number, file) in arguments.files.iter().enumerate() {
        match explain_file(file, arguments) {
            Ok(explanation) => print(shown(file, &explanation, arguments, several, number)?.as_bytes())?,
            Err(message) => {
                complain(&format!("{}: {message}", file.display()));
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

fn shown(
    file: &Path,
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
    Ok(if several { format!("{gap}{}: {text}", file.display()) } else { text })
}

fn explain_file(file: &Path, arguments: &Arguments) -> Result<Explanation, String> {
    let progress = Progress::start(file);
    let snapshot = match Input::read(file)? {
        Input::Graph(snapshot) => snapshot,
        Input::Problem(_) => return Err("this is a CSV file, and only graphs can be explained".to_owned()),
    };
    let buffer = arguments.buffer.as_deref().map(|buffer| find_buffer(&snapshot, buffer)).transpose()?;
    progress.go_on("planning");
    let buffers = buffers(&snapshot, arguments.rules.as_ref(), arguments.effort);
    let plan = snapshot.plan_in(&buffers).map_err(|error| error.to_string())?;
    progress.go_on("checking");
    check(&snapshot, &plan)?;
    progress.go_on("explaining");
    let same_memory: Vec<TensorId> = (0..).take(snapshot.tensors.len()).collect();
    // A file does not say whose device its buffers belong to.
    let allowed = vec![Rules::ALL; buffers.len()];
    let mut explanation = explain(Subject {
        snapshot: &snapshot,
        buffers: &buffers,
        allowed: &allowed,
        same_memory: &same_memory,
        plan: &plan,
        trials: arguments.trials,
    });
    explanation.buffers.retain(|found| buffer.is_none_or(|wanted| found.id == wanted));
    Ok(explanation)
}

/// The buffer with this number or name.
fn find_buffer(snapshot: &Snapshot, wanted: &str) -> Result<usize, String> {
    let names: Vec<&str> = snapshot.buffers.iter().map(|buffer| buffer.name.as_str()).collect();
    let by_number = wanted.parse().ok().filter(|&number: &usize| number < names.len());
    by_number.or_else(|| names.iter().position(|&name| name == wanted)).ok_or_else(|| {
        let known: Vec<String> = names.iter().enumerate().map(|(number, name)| format!("{number} ({name})")).collect();
        format!("there is no buffer {wanted:?}; the graph has {}", known.join(", "))
    })
}
