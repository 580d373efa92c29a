//! `lastuse offload`: which weights and caches of a program go on which device.
//!
//! ```text
//!  device        the devices that are given
//!  program       graphs of a program by a dry run, and the plans of each kind
//!  planning      the planner of the library, with these graphs
//!  kinds         kinds of plans: whole layers, experts or FFNs of the first layers on the host, single tensors
//!  first_layers  what options of llama.cpp keep of the first layers
//!  llama_cpp     the arguments for a plan; patterns: layers in them
//!  per_token     what a plan means for a token: what is read on devices, what is moved
//!  check         a dry run with the arguments, compared with the plan
//!  advice        what to do about a difference
//!  neurons       neurons of FFNs in the room that is left
//!  report        plans as text and as JSON; table: those of all kinds
//! ```

mod advice;
mod check;
mod device;
mod first_layers;
mod kinds;
mod llama_cpp;
mod neurons;
mod patterns;
mod per_token;
mod planning;
mod program;
mod report;
mod table;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::{ValueEnum, ValueHint};
use device::DeviceArgument;
use kinds::Kind;
use lastuse::graph::snapshot::Snapshot;
use lastuse::offload::captured::{CapturedItems, CapturedRule, untied};
use lastuse::offload::device::Device;
use lastuse::offload::planner::{NotPlaced, Order};
use lastuse::offload::rules::{SchedulerOptions, unscheduled};
use lastuse_neurons::gguf::read_model;
use neurons::DividedFfns;
use planning::Planner;
use report::{OF_GRAPHS, formatted, infeasible, offload_json};

use crate::input::{Input, expanded};
use crate::launch::Preload;
use crate::output::{Output, Progress, by_ending, is_stream, print, print_error, print_notice};
use crate::usage::Failure;

const USAGE: &str = "lastuse offload [OPTIONS] --device <NAME=BYTES> -- <PROGRAM>...
       lastuse offload [OPTIONS] --device <NAME=BYTES> <GRAPHS>...";

/// Place weights and caches on devices, within their budgets.
///
/// Give a program with its arguments, in the end, after "--". A dry run, as of "lastuse measure", finds its graphs: the
/// names and bytes of weights, caches and intermediates, with any offload. A table has the best plan of each kind: how many
/// bytes of each device stay free, which part of the bytes read per token is read on devices, and how many bytes are copied
/// between devices per token. Then come the plan of one kind, whole layers unless --kind says otherwise, and the arguments
/// to start the program with, behind its own. Or give graphs that were captured ("lastuse run --capture").
///
/// For each offload that is tried, ggml's scheduler is reproduced and the compute buffers are planned, so that of each
/// device weights + caches + compute buffer + reserve <= budget, in bytes. Nothing is allocated. Arguments hold for a
/// llama.cpp that runs with lastuse and its default rules, and with the -c, -b, -ub, -np, -fa and cache types of the
/// measured or captured run: with ggml-alloc, compute buffers are larger.
///
/// Of captured graphs, give those with the largest batch and with a single token: the compute buffer is the largest of all
/// graphs, and the benefit of placing a tensor is the number of its bytes read per run of each graph.
#[derive(clap::Args)]
#[command(override_usage = USAGE, after_help = "Examples:
  lastuse offload --device Vulkan0=2GiB -- ./llama-server -m model.gguf -c 32768
  lastuse offload --device CUDA0=8G,reserve=600M --kind tensors --check -- \\
      ./llama-server -m model.gguf                    single tensors, checked
  lastuse offload graphs --device Vulkan0=2GiB,reserve=300MiB   the rest is the
                                                      driver's
  lastuse offload graphs --device CUDA0=8G --device CUDA1=4G --layers
  lastuse offload graphs --device CUDA0=8G --device cpu=16G   the host, too
  lastuse offload graphs --device CUDA0=8G --model model.gguf   unread ones, too
  lastuse offload graphs --device gpu=8G --order classes --hotness stats \\
      -o model.gpuidx
  lastuse offload graphs --device CUDA0=8G --json      JSON, for programs

Exit codes: 0 placed, and each device is within its budget; 1 there is no such offload, a file cannot be read, or a dry run with the \
arguments has found other bytes; 2 wrong usage; 125 to 127 and others as of \"lastuse measure\".")]
pub struct Arguments {
    /// The graphs (*.jsonl, *.jsonl.gz), or folders of them; "-" is the standard input.
    #[arg(conflicts_with = "program")]
    files: Vec<PathBuf>,

    /// The program and its arguments, in place of graphs; "--" may be left out
    #[arg(last = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    program: Vec<OsString>,

    /// A device and its budget; may be given several times, in the order of preference.
    ///
    /// NAME=BYTES, as in 2GiB, 1.5GiB or 800M: K, M and G are binary units too, KB, MB and GB decimal ones; name devices as
    /// llama.cpp does (Vulkan0, CUDA0). Further properties follow, separated by commas: reserve=BYTES of the budget for
    /// memory outside of buffers, such as the context of a driver; granularity=BYTES of which buffers are a multiple;
    /// alignment=BYTES of tensors; max-buffer=BYTES. The last two are by default those of the captured buffers of this name,
    /// otherwise 128 and none. events=off if a device has no events: llama.cpp computes in pipelines where everything is on
    /// several devices that have them; a dry run of a program finds that itself. The host is cpu, without a limit unless
    /// one is given.
    #[arg(long = "device", value_name = "NAME=BYTES[,...]", required = true)]
    devices: Vec<DeviceArgument>,

    /// Of a program: the kind of plan whose arguments are printed [default: layers]
    #[arg(long, value_name = "KIND", conflicts_with_all = ["layers", "files"])]
    kind: Option<Kind>,

    /// Of a program: print what another dry run with the printed arguments finds
    ///
    /// Each device must hold exactly what is planned. If not, or if the program fails with these arguments, that is an error,
    /// also without this option, which names those of the program's own arguments that may be the reason.
    #[arg(long, conflicts_with = "files")]
    check: bool,

    #[command(flatten)]
    preload: Preload,

    /// The model, a GGUF file: its tensors that no graph reads are counted too. For a model in several files, any of
    /// them. A dry run of a program counts them itself.
    #[arg(long, value_name = "FILE", conflicts_with = "program")]
    model: Option<PathBuf>,

    /// Divide the neurons of FFNs by their hotness, for PowerInfer: a file for each layer, or a folder of them.
    ///
    /// The matrices of FFNs stay on the host as a whole, and the first device has copies of the hottest neurons in the room
    /// that everything else leaves. "lastuse neurons --help" has the formats of files.
    #[arg(long, value_name = "STATS", num_args = 1.., conflicts_with_all = ["layers", "program"])]
    hotness: Vec<PathBuf>,

    /// Write which neurons are on the device, for PowerInfer (.gpuidx).
    #[arg(long, short, value_name = "FILE", requires = "hotness", conflicts_with = "program")]
    output: Option<PathBuf>,

    /// The order in which tensors are placed while there is room.
    #[arg(long, value_name = "ORDER", default_value = "benefit", conflicts_with = "layers")]
    order: OrderArgument,

    /// Place whole layers: a contiguous range on each device, the first layers on the host; or all layers on the fewest
    /// of the first devices that have room for them.
    #[arg(long)]
    layers: bool,

    /// The rule by which intermediates are placed.
    #[arg(long, value_name = "RULE", default_value = "scheduler")]
    rule: RuleArgument,

    /// Operations whose weights are on the host stay there, whatever their batch: llama.cpp's --no-op-offload.
    ///
    /// Otherwise ggml's scheduler gives operations on batches to a device, and copies their weights to its compute buffer.
    /// Where no offload is within the budgets with that, one without it is searched for.
    #[arg(long)]
    no_op_offload: bool,

    /// Print JSON, format "lastuse-device-offload".
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum OrderArgument {
    /// Items that gain most for their bytes come first; those that do not fit are left out
    Benefit,
    /// PowerInfer's order: attention, predictors, norms, output, caches of values, caches of keys, FFNs
    Classes,
    /// The order in which the graphs list them, up to the first that does not fit
    Given,
}

#[derive(Clone, Copy, ValueEnum)]
enum RuleArgument {
    /// The rule of ggml's scheduler
    Scheduler,
    /// On a device if any operand is there
    AnyOperand,
    /// PowerInfer's rule
    Powerinfer,
}

/// Places weights and caches, of the graphs or of a program.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if arguments.files.is_empty() && arguments.program.is_empty() {
        return Err(Failure::usage(
            "there is nothing to place: give captured graphs, or a program with its arguments behind \"--\"",
        ));
    }
    arguments.output.as_deref().map(check_ending).transpose().map_err(Failure::usage)?;
    let devices = device::with_host(&arguments.devices).map_err(Failure::usage)?;
    if arguments.program.is_empty() { of_graphs(arguments, devices) } else { program::run(arguments, devices) }
}

/// Reads the graphs and places their weights and caches.
fn of_graphs(arguments: &Arguments, mut devices: Vec<Device>) -> Result<ExitCode, Failure> {
    let files = expanded(&arguments.files);
    let progress = Progress::start(&files[0]);
    let snapshots = read_all(&files)?;
    device::complete(&mut devices, &arguments.devices, &snapshots);
    let mut found = items(&snapshots)?;
    if let Some(file) = &arguments.model {
        let tensors = read_model(file).map_err(|why| why.to_string())?;
        let tensors = tensors.into_iter().map(|tensor| (tensor.name, tensor.bytes));
        found.add_unread(&file.display().to_string(), tensors).map_err(|why| why.to_string())?;
    }
    let host = devices.len() - 1;
    llama_cpp::prepare(&mut found.items, host, arguments.layers);
    let ffns =
        (!arguments.hotness.is_empty()).then(|| DividedFfns::prepare(&arguments.hotness, &mut found.items, host));
    let ffns = ffns.transpose()?;
    progress.set("placing");
    let started = Instant::now();
    let placed = arguments.planner(&snapshots, &devices).plan(&found, arguments.layers);
    let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
    drop(progress);
    arguments.tell_what_is_unreserved();
    let (mut placed, op_offload) = match placed {
        Ok(placed) => placed,
        Err(why) => return not_placed(why, arguments.json),
    };
    let neurons = ffns.map(|ffns| ffns.fill(&devices, &mut placed)).transpose()?;
    if let (Some(file), Some(neurons)) = (&arguments.output, &neurons) {
        let output = Output::open(file)?;
        output.write(&neurons.file()?)?;
    }
    let for_llama_cpp = llama_cpp::arguments(&devices, &found.items, &placed.assignment, None, op_offload);
    let text = if arguments.json {
        let mut json = offload_json(&devices, &found.items, &placed, &for_llama_cpp);
        if let Some(neurons) = &neurons {
            json["neurons"] = neurons.json();
        }
        format!("{json:#}\n")
    } else {
        let neurons = neurons.map(|neurons| neurons.text()).unwrap_or_default();
        formatted(&devices, &found.items, &placed, milliseconds, (&for_llama_cpp, OF_GRAPHS)) + &neurons
    };
    print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Tells why nothing is placed.
fn not_placed(why: NotPlaced, is_json: bool) -> Result<ExitCode, Failure> {
    let NotPlaced::Infeasible(shortages) = &why else { return Err(why.to_string().into()) };
    print_error(&if shortages.is_empty() {
        "not all layers fit on the devices: give larger budgets, or --kind layers or tensors".to_owned()
    } else {
        why.to_string()
    });
    if is_json {
        print(format!("{:#}\n", infeasible(shortages)).as_bytes())?;
    }
    Ok(ExitCode::FAILURE)
}

/// Returns the weights and caches that graphs read.
fn items(snapshots: &[Snapshot]) -> Result<CapturedItems, String> {
    let found = CapturedItems::of(snapshots).map_err(|why| why.to_string())?;
    if found.items.is_empty() {
        return Err("the graphs have no weights or caches: no tensor has memory before they run".to_owned());
    }
    Ok(found)
}

impl Arguments {
    fn planner<'a>(&self, snapshots: &'a [Snapshot], devices: &'a [Device]) -> Planner<'a> {
        let order = match self.order {
            OrderArgument::Benefit => Order::Benefit,
            OrderArgument::Classes => Order::Classes,
            OrderArgument::Given => Order::Given,
        };
        let rule = match self.rule {
            RuleArgument::Scheduler => CapturedRule::Scheduler(SchedulerOptions::default()),
            RuleArgument::AnyOperand => CapturedRule::AnyOperand,
            RuleArgument::Powerinfer => CapturedRule::PowerInfer,
        };
        let are_several = devices.len() > 2;
        let has_events = are_several && self.devices.iter().all(|argument| argument.has_events);
        Planner { snapshots, devices, order, rule, has_events, op_offload: !self.no_op_offload }
    }

    /// Tells that nothing is reserved for drivers.
    fn tell_what_is_unreserved(&self) {
        let unreserved = self.devices.iter().find(|argument| !argument.is_reserve_given && !self.json);
        if let Some(DeviceArgument { device, .. }) = unreserved {
            print_notice(&format!(
                "{}: nothing is reserved for the context and the pools of its driver, often some hundreds of MiB: give less than the \
                 free memory, or such as reserve=600MiB after the budget (reserve=0 if nothing is needed)",
                device.name
            ));
        }
    }
}

fn check_ending(file: &Path) -> Result<(), String> {
    if is_stream(file) { Ok(()) } else { by_ending(file, &[(".gpuidx", ())]) }
}

fn read_all(files: &[PathBuf]) -> Result<Vec<Snapshot>, String> {
    let read = |file: &PathBuf| {
        Input::read_graph(file)
            .map(|snapshot| untied(unscheduled(&snapshot)))
            .map_err(|why| format!("{}: {why}", file.display()))
    };
    files.iter().map(read).collect()
}
