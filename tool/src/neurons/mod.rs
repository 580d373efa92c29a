//! `lastuse neurons`: which neurons of a model belong on the GPU, written for PowerInfer.

mod budget;
mod shape;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use budget::DivisionLimit;
use clap::ValueEnum;
use lastuse::placement::Bytes;
use lastuse_neurons::division::{
    DEFAULT_GRANULE, Granule, LayerCost, LayerDivision, LayerNeurons, NeuronDivision, divide,
};
use lastuse_neurons::gpuidx::{Dialect, GpuIndex, KnownModel, LayerIndex};
use lastuse_neurons::hotness::{LayerHotness, read_hotness};
use lastuse_neurons::report::{
    DivisionReport, DivisionRow, checked_index_json, checked_index_text, division_json, division_text,
};

use crate::foreign::unreadable;
use crate::output::{Output, by_ending, is_stream, print};
use crate::passes::size_option;
use crate::report::exact;
use crate::usage::Failure;

/// Divide the neurons of a model between a GPU and the host.
///
/// Decides which neurons belong on a GPU, and writes them for PowerInfer.
///
/// STATS are files with the hotness of neurons, one for each layer: how often each neuron was active in a run. They are
/// arrays of NumPy (.npy), tensors of torch (.pt), which are never executed, or bare 32-bit numbers (.f32), ordered by
/// the number in their names. From a folder, the files activation_N.pt, .npy or .f32 are taken.
///
/// Neurons are taken in groups, the hottest first over all layers, until the budget is spent: a number of neurons, or
/// bytes. A neuron is charged its rows of the up, gate and down matrices and 4 bytes in the list of neurons. Where
/// room is left, neurons that were never active fill it. The last group of a layer is smaller if the granule does not
/// divide n_ff.
///
/// Prints a table, and with --output writes a .gpuidx file. With --check it checks such a file instead.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lastuse neurons stats --bytes 5GiB --embd 4096 --type q4_0    what fits 5 GiB
  lastuse neurons stats --bytes 5GiB --embd 4096 --type q4_0 -o llama.gpuidx
  lastuse neurons stats --neurons 429432 --vram-capacity 13357166592 \\
      -o llama.gpuidx
  lastuse neurons stats --bytes 5GiB --type q4_0 --powerinfer -o llama.gpuidx
  lastuse neurons layer_*.npy --neurons 20000 --json    counts of each layer
  lastuse neurons --check llama.gpuidx --layers 32 --ff 11008    check a file

Exit codes: 0 done, or the file is valid, 1 a file cannot be read, is malformed or invalid, 2 wrong usage.")]
pub struct Arguments {
    /// The hotness of each layer: files, or folders of files.
    #[arg(required_unless_present = "check", conflicts_with = "check")]
    stats: Vec<PathBuf>,

    /// Check this .gpuidx file: prints OK, or each rule that does not hold with its tensor.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,

    #[command(flatten)]
    limit: budget::Options,

    #[command(flatten)]
    shape: shape::Options,

    /// Take this number of neurons at a time: a multiple of 32, which PowerInfer needs for batches of more than 100
    /// columns.
    #[arg(long, value_name = "COUNT", default_value_t = DEFAULT_GRANULE, value_parser = granule, conflicts_with = "check")]
    granule: u32,

    /// The bytes that the file states as allowed for neurons; --bytes if it is not given.
    ///
    /// PowerInfer refuses to load the file when less is left. With --check: the bytes that are left, and the file must
    /// not allow more.
    #[arg(long, value_name = "BYTES", value_parser = size_option)]
    vram_capacity: Option<Bytes>,

    /// Write the neurons on the GPU to this file (*.gpuidx, *.gguf); "-" is the standard output, in place of the table.
    #[arg(short, long, value_name = "FILE", conflicts_with = "check")]
    output: Option<PathBuf>,

    /// Which program the file is for [default: gguf for an output named *.gguf, otherwise powerinfer]
    #[arg(long, value_enum, conflicts_with = "check")]
    format: Option<IndexFormat>,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum IndexFormat {
    /// PowerInfer, with the first bytes PWRI.
    Powerinfer,
    /// GGUF as today's ggml reads it.
    Gguf,
}

impl IndexFormat {
    fn dialect(self) -> Dialect {
        match self {
            Self::Powerinfer => Dialect::PowerInfer,
            Self::Gguf => Dialect::Gguf,
        }
    }
}

fn granule(text: &str) -> Result<u32, String> {
    let number = text.parse().map_err(|_| format!("{text:?} is not a number of neurons"))?;
    Granule::new(number).map(Granule::get).map_err(|invalid| invalid.to_string())
}

/// Divides neurons, or checks a file.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if let Some(file) = &arguments.check {
        let shape::Options { layers, ff, .. } = arguments.shape;
        let model = KnownModel { layers, neurons: ff, vram_left: arguments.vram_capacity };
        return Ok(check(file, &model, arguments.json)?);
    }
    arguments.check_usage().map_err(Failure::usage)?;
    let output = arguments.output.as_deref().map(Output::open).transpose()?;
    let written = make(arguments);
    match (output, written) {
        (None, made) => made?.print(arguments),
        (Some(output), Ok(made)) => {
            output.write(&made.file(arguments)?)?;
            if arguments.output.as_deref() == Some(Path::new("-")) { Ok(()) } else { made.print(arguments) }
        }
        (Some(output), Err(message)) => {
            output.discard();
            Err(message)
        }
    }?;
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    /// Fails if options are missing or contradict each other in ways that depend on several of them.
    fn check_usage(&self) -> Result<(), String> {
        self.limit.check_usage(&self.shape)?;
        if self.limit.powerinfer && self.granule != DEFAULT_GRANULE {
            return Err(format!("--powerinfer takes {DEFAULT_GRANULE} neurons at a time: leave --granule out"));
        }
        self.index_format()?;
        if self.output.is_some() && self.capacity().is_none() {
            return Err("--output needs --vram-capacity where the budget is --neurons: the file states it".to_owned());
        }
        if self.output.as_deref() == Some(Path::new("-")) && self.json {
            return Err("--json and --output - both write to the standard output: leave one out".to_owned());
        }
        Ok(())
    }

    /// Returns the format of the output: by its ending, unless an option sets it.
    fn index_format(&self) -> Result<IndexFormat, String> {
        let by_name = match &self.output {
            Some(file) if !is_stream(file) => {
                by_ending(file, &[(".gpuidx", IndexFormat::Powerinfer), (".gguf", IndexFormat::Gguf)])?
            }
            _ => IndexFormat::Powerinfer,
        };
        Ok(self.format.unwrap_or(by_name))
    }

    fn capacity(&self) -> Option<Bytes> {
        self.vram_capacity.or(self.limit.bytes)
    }
}

/// A division, and its report.
struct Made {
    layers: Vec<LayerIndex>,
    report: DivisionReport,
}

fn make(arguments: &Arguments) -> Result<Made, String> {
    let layers = read_hotness(&arguments.stats).map_err(|unreadable| unreadable.to_string())?;
    let neurons = layers.first().map_or(0, |layer| layer.hotness.len() as u64);
    arguments.shape.compare(&layers)?;
    let DivisionLimit { budget, cost, inactive, report } = arguments.limit.limit(&arguments.shape, neurons)?;
    let granule = Granule::new(arguments.granule).map_err(|invalid| invalid.to_string())?;
    let of_layers: Vec<LayerNeurons<'_>> =
        layers.iter().map(|layer| LayerNeurons { hotness: &layer.hotness, cost }).collect();
    let division = divide(&of_layers, budget, granule, inactive).map_err(|unusable| unusable.to_string())?;
    let true_cost = arguments.shape.cost()?;
    let report = DivisionReport {
        rows: rows(&layers, &division, true_cost.as_ref()),
        budget: report,
        granule: arguments.granule,
        neuron_bytes: true_cost.map(|cost| cost.neuron.get()),
        bound: division.bound,
    };
    let neurons = u32::try_from(neurons).map_err(|_| format!("{neurons} neurons are too many"))?;
    let index = |layer: LayerDivision| LayerIndex { neurons, bucket: layer.bucket };
    Ok(Made { layers: division.layers.into_iter().map(index).collect(), report })
}

fn rows(layers: &[LayerHotness], division: &NeuronDivision, true_cost: Option<&LayerCost>) -> Vec<DivisionRow> {
    let row = |(layer, chosen): (&LayerHotness, &LayerDivision)| {
        let on_gpu = chosen.bucket.len() as u64;
        DivisionRow {
            file: layer.path.display().to_string(),
            neurons: layer.hotness.len() as u64,
            on_gpu,
            bytes: true_cost.and_then(|cost| cost.bytes(on_gpu)),
            covered: chosen.covered,
            total: chosen.total,
        }
    };
    layers.iter().zip(&division.layers).map(row).collect()
}

impl Made {
    fn file(&self, arguments: &Arguments) -> Result<Vec<u8>, String> {
        let vram_capacity = arguments.capacity().ok_or("the bytes allowed for neurons are unknown")?;
        let index = GpuIndex { layers: self.layers.clone(), vram_capacity };
        index.write(arguments.index_format()?.dialect()).map_err(|malformed| malformed.to_string())
    }

    fn print(&self, arguments: &Arguments) -> Result<(), String> {
        let text = if arguments.json {
            division_json(&self.report).map_err(|error| error.to_string())? + "\n"
        } else {
            division_text(&self.report, exact)
        };
        print(text.as_bytes())
    }
}

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 30;

/// The first bytes of a model, and of a list of neurons in the same format.
const MODEL: &[u8] = b"GGUF";

/// Ends the names of the tensors that a list of neurons has for each layer.
const INDEX: &[u8] = b".gpu_idx";

/// Checks a file, and prints the result.
fn check(path: &Path, model: &KnownModel, json: bool) -> Result<ExitCode, String> {
    let cannot = |reason: String| format!("{}: {reason}", path.display());
    let mut content = Vec::new();
    let file = File::open(path).map_err(|error| cannot(unreadable(path, &error)))?;
    file.take(MAX_FILE + 1).read_to_end(&mut content).map_err(|error| cannot(error.to_string()))?;
    if content.len() as u64 > MAX_FILE {
        return Err(cannot(format!("it has more than {MAX_FILE} bytes; no model has so many neurons")));
    }
    if content.starts_with(MODEL) && !content.windows(INDEX.len()).any(|bytes| bytes == INDEX) {
        let instead = "not a list of neurons: \"lastuse neurons ... -o FILE.gpuidx\" writes one";
        return Err(cannot(format!("this is a model (GGUF), {instead}")));
    }
    let (file, defects) = match GpuIndex::read(&content) {
        Ok(read) => {
            let defects = read.0.compare_with_model(model);
            (Some(read), defects)
        }
        Err(malformed) => (None, malformed.defects),
    };
    let text = if json {
        checked_index_json(file.as_ref(), &defects).map_err(|error| error.to_string())? + "\n"
    } else {
        checked_index_text(file.as_ref(), &defects)
    };
    print(text.as_bytes())?;
    Ok(if defects.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
