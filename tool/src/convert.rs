//! `lastuse convert`: graphs to placement problems, and back.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use flate2::Compression;
use flate2::write::GzEncoder;
use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{Allocation, RuleSetting};

use crate::formats::csv::{Sheet, write_blocks};
use crate::formats::graph_of_problem;
use crate::input::Input;
use crate::output::{Output, Progress, by_ending, is_stream, print_notice};
use crate::passes::{RecomputeOptions, TilingOptions};
use crate::planning::{buffers, find_buffer, listed};
use crate::usage::Failure;

/// Convert graphs to placement problems, or to fit a budget.
///
/// Converts a graph to a placement problem as CSV for MiniMalloc, such a problem to a graph, or a graph to one that fits a
/// budget: it computes results again, or in tiles. The ending of the output chooses: .csv, .csv.gz, .jsonl or .jsonl.gz.
///
/// A graph becomes the blocks of one of its buffers with their live ranges, after the decision which memory is shared. The
/// id of a block is that of the first tensor in it. A problem becomes a graph with two nodes for each block, the definition
/// and the last use of a tensor with the same live range.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lastuse convert llama.jsonl -o llama.csv                the live ranges
  lastuse convert --rules ggml llama.jsonl -o llama.csv   those of ggml-alloc
  lastuse convert --buffer CUDA0 split.jsonl -o gpu.csv   of one buffer
  lastuse convert llama.jsonl -o llama.jsonl.gz           compressed
  lastuse convert blocks.csv -o blocks.jsonl.gz           a problem as a graph
  lastuse convert --recompute 40% train.jsonl -o less.jsonl   computed again
  lastuse convert --tile 700M vae.jsonl -o parts.jsonl   large results in tiles

Exit codes: 0 converted, 1 the file is malformed or cannot be read, no graph fits --tile or --recompute, or the output cannot \
be written, 2 wrong usage, or an option or output that is not for this kind of file.")]
pub struct Arguments {
    /// The graph (*.jsonl, *.jsonl.gz) or the problem (*.csv); "-" is the standard input.
    file: PathBuf,

    /// The output (*.csv, *.csv.gz, *.jsonl, *.jsonl.gz); "-" is the standard output.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// For a graph: the buffer, by its name, or its number, counted from 0.
    #[arg(long, value_name = "NAME")]
    buffer: Option<String>,

    /// For a graph: the rules for sharing memory, as in "lastuse plan" [default: those recorded in the file, or else all]
    #[arg(long)]
    rules: Option<RuleSetting>,

    #[command(flatten)]
    recompute: RecomputeOptions,

    #[command(flatten)]
    tiling: TilingOptions,
}

/// The kind of file to write.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Graph,
    Problem,
}

/// Converts the file.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let kind = arguments.kind().and_then(|kind| arguments.check(kind).map(|()| kind)).map_err(Failure::usage)?;
    let progress = Progress::start(&arguments.file);
    let bytes = converted(arguments, kind, &progress);
    let bytes = bytes.map_err(|failure| failure.of_file(&arguments.file))?;
    progress.set("writing");
    let bytes = encoded(&arguments.output, bytes)?;
    drop(progress);
    Output::open(&arguments.output)?.write(&bytes)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the bytes of the output, uncompressed.
fn converted(arguments: &Arguments, kind: Option<Kind>, progress: &Progress) -> Result<Vec<u8>, Failure> {
    match Input::read(&arguments.file)? {
        Input::Graph(snapshot) if arguments.rewrites() => Ok(rewritten(snapshot, arguments, progress)?),
        Input::Graph(snapshot) if kind == Some(Kind::Graph) => Ok(snapshot.text().into_bytes()),
        Input::Graph(snapshot) => {
            progress.set("planning");
            let mut bytes = Vec::new();
            write_problem(&snapshot, arguments, &mut bytes)?;
            Ok(bytes)
        }
        Input::Problem(_) if arguments.buffer.is_some() || arguments.rules.is_some() || arguments.rewrites() => {
            Err(Failure::wrong_kind(
                "--buffer, --rules, --recompute and --tile are for graphs, but this is a placement problem",
            ))
        }
        Input::Problem(_) if kind == Some(Kind::Problem) => Err(Failure::wrong_kind(
            "this is a placement problem already: name the output *.jsonl or *.jsonl.gz for a graph",
        )),
        Input::Problem(sheet) => Ok(graph_of(&sheet, &arguments.file).text().into_bytes()),
    }
}

fn rewritten(mut snapshot: Snapshot, arguments: &Arguments, progress: &Progress) -> Result<Vec<u8>, String> {
    let buffers = buffers(&snapshot, arguments.rules.as_ref());
    arguments.recompute.apply(&mut snapshot, &buffers, progress)?;
    arguments.tiling.apply(&mut snapshot, &buffers, progress)?;
    // The bytes that ggml-alloc needed are those of the given graph.
    snapshot.buffers.iter_mut().for_each(|buffer| buffer.ggml_alloc_size = None);
    Ok(snapshot.text().into_bytes())
}

fn write_problem(snapshot: &Snapshot, arguments: &Arguments, bytes: &mut Vec<u8>) -> Result<(), String> {
    let number = arguments.buffer_of(snapshot)?;
    let plan = snapshot.plan_in(&buffers(snapshot, arguments.rules.as_ref())).map_err(|error| error.to_string())?;
    let problem = &plan.problems[number];
    if !problem.shrinks().is_empty() {
        print_notice(&format!(
            "{} blocks shrink before they end, which this format cannot express: their rows have the full size to the end",
            problem.shrinks().len()
        ));
    }
    let ids = first_tensors(snapshot, &plan.allocations, number, problem.blocks().len());
    write_blocks(problem, &ids, bytes).map_err(|error| error.to_string())
}

impl Arguments {
    /// Returns the format that the ending of the output selects; `None` for a stream, which gets the other format than
    /// the input.
    fn kind(&self) -> Result<Option<Kind>, String> {
        let endings =
            [(".csv", Kind::Problem), (".csv.gz", Kind::Problem), (".jsonl", Kind::Graph), (".jsonl.gz", Kind::Graph)];
        if is_stream(&self.output) { Ok(None) } else { by_ending(&self.output, &endings).map(Some) }
    }

    /// Refuses options that the output cannot have, whatever the file is.
    fn check(&self, kind: Option<Kind>) -> Result<(), String> {
        match kind {
            Some(Kind::Problem) if self.rewrites() => {
                let option = if self.tiling.is_set() { "--tile" } else { "--recompute" };
                let how = "name the output *.jsonl or *.jsonl.gz, and convert that to CSV";
                Err(format!("{option} writes a graph: {how}"))
            }
            Some(Kind::Graph) if !self.rewrites() && (self.buffer.is_some() || self.rules.is_some()) => {
                Err("--buffer and --rules are for the live ranges of a graph: name the output *.csv".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Returns `true` if the output is another graph.
    fn rewrites(&self) -> bool {
        self.recompute.is_set() || self.tiling.is_set()
    }

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
    graph_of_problem(sheet.problem(), &label, &sheet.names())
}

/// Compresses the bytes if the name of the output ends in .gz.
fn encoded(path: &Path, bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    if path.extension().is_none_or(|extension| !extension.eq_ignore_ascii_case("gz")) {
        return Ok(bytes);
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let encoded = encoder.write_all(&bytes).and_then(|()| encoder.finish());
    encoded.map_err(|error| format!("{}: {error}", path.display()))
}
