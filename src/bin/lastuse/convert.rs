//! `lastuse convert`: graphs to placement problems, and back.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use flate2::Compression;
use flate2::write::GzEncoder;
use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{Allocation, RuleSetting, Rules};
use lastuse::placement::csv::{Sheet, write_blocks};

use super::input::Input;
use super::output::Output;
use super::print::complain;
use super::progress::Progress;

/// Convert a graph to the CSV of a placement problem as MiniMalloc reads it, or such a problem to a graph.
///
/// A graph becomes the blocks of one of its buffers: what lives when, after the decision which memory is shared. An id is
/// that of the first tensor in the block. A problem becomes a graph with a node for each block and one that ends it, whose
/// tensors live exactly as long as the blocks.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lastuse convert llama.jsonl -o llama.csv                the live_ranges that lastuse plans
  lastuse convert --rules ggml llama.jsonl -o llama.csv   those of ggml's own allocator
  lastuse convert --buffer CUDA0 split.jsonl -o gpu.csv   of one of several buffers
  lastuse convert blocks.csv -o blocks.jsonl.gz           a problem as a graph, compressed

Exit codes: 0 converted, 1 the file is malformed or cannot be read, or the output cannot be written, 2 wrong usage.")]
pub struct Arguments {
    /// The graph (*.jsonl, *.jsonl.gz) or the problem (*.csv); "-" is the standard input.
    file: PathBuf,

    /// Where it goes, compressed when the name ends in .gz; "-" is the standard output.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// A graph: which buffer, by its name or its number from 0.
    #[arg(long, value_name = "NAME")]
    buffer: Option<String>,

    /// A graph: which memory is shared; see `lastuse plan --help`. When nothing is said, as the program did, where the
    /// file tells it, and otherwise all.
    #[arg(long)]
    rules: Option<RuleSetting>,
}

/// Converts the file.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let wrong = |message: String| format!("{}: {message}", arguments.file.display());
    let progress = Progress::start(&arguments.file);
    let mut bytes = Vec::new();
    match Input::read(&arguments.file).map_err(wrong)? {
        Input::Graph(snapshot) => {
            progress.go_on("planning");
            write_problem(&snapshot, arguments, &mut bytes).map_err(wrong)?;
        }
        Input::Problem(_) if arguments.buffer.is_some() || arguments.rules.is_some() => {
            return Err(wrong("--buffer and --rules are for graphs, and this is a placement problem".to_owned()));
        }
        Input::Problem(sheet) => bytes = graph_of(&sheet, &arguments.file).text().into_bytes(),
    }
    progress.go_on("writing");
    let bytes = encoded(&arguments.output, bytes)?;
    drop(progress);
    Output::open(&arguments.output)?.write(&bytes)?;
    Ok(ExitCode::SUCCESS)
}

fn write_problem(snapshot: &Snapshot, arguments: &Arguments, bytes: &mut Vec<u8>) -> Result<(), String> {
    let number = arguments.chosen(snapshot)?;
    let mut buffers = snapshot.recorded_buffers();
    if let Some(rules) = &arguments.rules {
        buffers.iter_mut().for_each(|buffer| buffer.rules = rules.rules(Rules::ALL));
    }
    let plan = snapshot.plan_in(&buffers).map_err(|error| error.to_string())?;
    let problem = &plan.problems[number];
    if !problem.shrinks().is_empty() {
        complain(&format!(
            "{} blocks give a part of their bytes back before they end, which this format cannot say: their rows hold all \
             to the end",
            problem.shrinks().len()
        ));
    }
    let ids = first_tensors(snapshot, &plan.allocations, number, problem.blocks().len());
    write_blocks(problem, &ids, bytes).map_err(|error| error.to_string())
}

impl Arguments {
    fn chosen(&self, snapshot: &Snapshot) -> Result<usize, String> {
        let names: Vec<&str> = snapshot.buffers.iter().map(|buffer| buffer.name.as_str()).collect();
        let Some(wanted) = &self.buffer else {
            let message = || format!("there are {} buffers: name one by --buffer: {}", names.len(), names.join(", "));
            return if names.len() == 1 { Ok(0) } else { Err(message()) };
        };
        let by_name = names.iter().position(|name| name == wanted);
        let by_number = || wanted.parse().ok().filter(|&number| number < names.len());
        by_name.or_else(by_number).ok_or_else(|| format!("there is no buffer {wanted:?}, but: {}", names.join(", ")))
    }
}

/// By block: the id in the file of the first tensor that lies in it.
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

/// The bytes as they are, or as gzip makes them.
fn encoded(path: &Path, bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    if path.extension().is_none_or(|extension| extension != "gz") {
        return Ok(bytes);
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let encoded = encoder.write_all(&bytes).and_then(|()| encoder.finish());
    encoded.map_err(|error| format!("{}: {error}", path.display()))
}
