//! `lastuse convert`: graphs to placement problems, and back.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use flate2::Compression;
use flate2::write::GzEncoder;
use lastuse::formats::csv::{Sheet, write_blocks};
use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{Allocation, RuleSetting};

use super::buffer::{find_buffer, listed};
use super::input::Input;
use super::output::Output;
use super::planning::buffers;
use super::print::print_error;
use super::progress::Progress;
use super::recompute;

/// Convert a graph to a placement problem as CSV for MiniMalloc, such a problem to a graph, or a training graph to one
/// that computes results again to fit a budget.
///
/// A graph becomes the blocks of one of its buffers with their live ranges, after the decision which memory is shared. The
/// id of a block is that of the first tensor in it. A problem becomes a graph with two nodes for each block, the def and the
/// last use of a tensor with the same live range.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lastuse convert llama.jsonl -o llama.csv                the live ranges that lastuse plans
  lastuse convert --rules ggml llama.jsonl -o llama.csv   those of ggml-alloc
  lastuse convert --buffer CUDA0 split.jsonl -o gpu.csv   of one of several buffers
  lastuse convert blocks.csv -o blocks.jsonl.gz           a problem as a graph, compressed
  lastuse convert --recompute 40% train.jsonl -o less.jsonl   the graph that computes results again

Exit codes: 0 converted, 1 the file is malformed or cannot be read, or the output cannot be written, 2 wrong usage.")]
pub struct Arguments {
    /// The graph (*.jsonl, *.jsonl.gz) or the problem (*.csv); "-" is the standard input.
    file: PathBuf,

    /// The output, compressed if its name ends in .gz; "-" is the standard output.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// For a graph: the buffer, by its name, or its number, counted from 0.
    #[arg(long, value_name = "NAME")]
    buffer: Option<String>,

    /// For a graph: the rules for sharing memory, as in "lastuse plan" [default: those recorded in the file, or else all]
    #[arg(long)]
    rules: Option<RuleSetting>,

    #[command(flatten)]
    recompute: recompute::Options,
}

/// Converts the file.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let in_file = |message: String| format!("{}: {message}", arguments.file.display());
    let progress = Progress::start(&arguments.file);
    let mut bytes = Vec::new();
    match Input::read(&arguments.file).map_err(in_file)? {
        Input::Graph(mut snapshot) if arguments.recompute.is_set() => {
            if arguments.output.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv")) {
                let message =
                    "--recompute writes a graph: name the output *.jsonl or *.jsonl.gz, and convert that to CSV";
                return Err(in_file(message.to_owned()));
            }
            let buffers = buffers(&snapshot, arguments.rules.as_ref());
            arguments.recompute.apply(&mut snapshot, &buffers, &progress).map_err(in_file)?;
            // What ggml-alloc needed was for the given graph.
            snapshot.buffers.iter_mut().for_each(|buffer| buffer.ggml_alloc_size = None);
            bytes = snapshot.text().into_bytes();
        }
        Input::Graph(snapshot) => {
            progress.set("planning");
            write_problem(&snapshot, arguments, &mut bytes).map_err(in_file)?;
        }
        Input::Problem(_)
            if arguments.buffer.is_some() || arguments.rules.is_some() || arguments.recompute.is_set() =>
        {
            let message = "--buffer, --rules and --recompute are for graphs, but this is a placement problem";
            return Err(in_file(message.to_owned()));
        }
        Input::Problem(sheet) => bytes = graph_of(&sheet, &arguments.file).text().into_bytes(),
    }
    progress.set("writing");
    let bytes = encoded(&arguments.output, bytes)?;
    drop(progress);
    Output::open(&arguments.output)?.write(&bytes)?;
    Ok(ExitCode::SUCCESS)
}

fn write_problem(snapshot: &Snapshot, arguments: &Arguments, bytes: &mut Vec<u8>) -> Result<(), String> {
    let number = arguments.buffer_of(snapshot)?;
    let plan = snapshot.plan_in(&buffers(snapshot, arguments.rules.as_ref())).map_err(|error| error.to_string())?;
    let problem = &plan.problems[number];
    if !problem.shrinks().is_empty() {
        print_error(&format!(
            "{} blocks shrink before they end, which this format cannot express: their rows have the full size to the end",
            problem.shrinks().len()
        ));
    }
    let ids = first_tensors(snapshot, &plan.allocations, number, problem.blocks().len());
    write_blocks(problem, &ids, bytes).map_err(|error| error.to_string())
}

impl Arguments {
    fn buffer_of(&self, snapshot: &Snapshot) -> Result<usize, String> {
        match &self.buffer {
            Some(buffer) => find_buffer(snapshot, buffer),
            None if snapshot.buffers.len() == 1 => Ok(0),
            None => Err(format!("the graph has several buffers: choose one with --buffer: {}", listed(snapshot))),
        }
    }
}

/// Returns the id in the file of the first tensor in each block.
fn first_tensors(snapshot: &Snapshot, allocations: &[Option<Allocation>], buffer: usize, blocks: usize) -> Vec<u64> {
    let mut ids = vec![u64::MAX; blocks];
    let listed = snapshot.graph.leafs().iter().chain(snapshot.graph.nodes());
    for &tensor in listed {
        if let Some(allocation) = allocations[tensor as usize].filter(|allocation| allocation.buffer as usize == buffer)
        {
            let id = &mut ids[allocation.block as usize];
            *id = if *id == u64::MAX { snapshot.tensors[tensor as usize].id } else { *id };
        }
    }
    ids
}

fn graph_of(sheet: &Sheet, file: &Path) -> Snapshot {
    let label = file.file_stem().unwrap_or_default().to_string_lossy();
    Snapshot::of_problem(sheet.problem(), &label, &sheet.names())
}

/// Compresses the bytes if the name of the output ends in .gz.
fn encoded(path: &Path, bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    if path.extension().is_none_or(|extension| extension != "gz") {
        return Ok(bytes);
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let encoded = encoder.write_all(&bytes).and_then(|()| encoder.finish());
    encoded.map_err(|error| format!("{}: {error}", path.display()))
}
