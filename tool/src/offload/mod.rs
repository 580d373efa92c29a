//! `lastuse offload`: which weights and caches of a program go on which device.

mod device;
mod llama_cpp;
mod neurons;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::ValueEnum;
use device::DeviceArgument;
use lastuse::graph::snapshot::Snapshot;
use lastuse::offload::captured::{CapturedCompute, CapturedItems, CapturedRule};
use lastuse::offload::device::Device;
use lastuse::offload::item::Item;
use lastuse::offload::planner::{NotPlaced, OffloadPlan, Order, Request, Shortage};
use lastuse::offload::rules::{SchedulerOptions, unscheduled};
use lastuse_neurons::gguf::read_model;
use llama_cpp::best_variant;
use neurons::DividedFfns;
use serde_json::{Value, json};

use crate::input::{Input, expanded};
use crate::output::{Output, Progress, by_ending, counted, is_stream, print, print_error, print_notice};
use crate::report::offload_text;
use crate::usage::Failure;

/// Place weights and caches on devices, within their budgets.
///
/// The graphs are captured from the program ("lastuse run --capture"), with any offload: they have the names and bytes of
/// weights, caches and intermediates. For each offload that is tried, ggml's scheduler is reproduced and the compute
/// buffers are planned, so that of each device weights + caches + compute buffer + reserve <= budget, in bytes. Nothing is
/// allocated. The arguments hold for a llama.cpp that runs with lastuse and its default rules, and with the -c, -b, -ub, -np, -fa and
/// cache types of the captured run: with ggml-alloc, compute buffers are larger.
///
/// Give the graphs with the largest batch and with a single token: the compute buffer is the largest of all graphs, and
/// the benefit of placing a tensor is the number of its bytes read per run of each graph.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lastuse offload graphs --device Vulkan0=2GiB,reserve=300MiB   the rest is the
                                                      driver's
  lastuse offload graphs --device CUDA0=8G --device CUDA1=4G --layers
  lastuse offload graphs --device CUDA0=8G --device cpu=16G   the host, too
  lastuse offload graphs --device CUDA0=8G --model model.gguf   unread ones, too
  lastuse offload graphs --device gpu=8G --order classes --hotness stats \\
      -o model.gpuidx
  lastuse offload graphs --device CUDA0=8G --json      JSON, for programs

Exit codes: 0 placed, and each device is within its budget; 1 there is no such offload, or a file cannot be read; 2 \
wrong usage.")]
pub struct Arguments {
    /// The graphs (*.jsonl, *.jsonl.gz), or folders of them; "-" is the standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// A device and its budget; may be given several times, in the order of preference.
    ///
    /// NAME=BYTES, with K, M or G for binary units; name devices as llama.cpp does (Vulkan0, CUDA0). Further properties
    /// follow, separated by commas: reserve=BYTES of the budget for memory outside of buffers, such as the context of a
    /// driver; granularity=BYTES of which buffers are a multiple; alignment=BYTES of tensors; max-buffer=BYTES. The
    /// last two are by default those of the captured buffers of this name, otherwise 128 and none. events=off if a
    /// device has no events: llama.cpp computes in pipelines where everything is on several devices that have them. The
    /// host is cpu, without a limit unless one is given.
    #[arg(long = "device", value_name = "NAME=BYTES[,...]", required = true)]
    devices: Vec<DeviceArgument>,

    /// The model, a GGUF file: its tensors that no graph reads are counted too. For a model in several files, any of
    /// them.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,

    /// Divide the neurons of FFNs by their hotness, for PowerInfer: a file for each layer, or a folder of them.
    ///
    /// The matrices of FFNs stay on the host as a whole, and the first device has copies of the hottest neurons in the room
    /// that everything else leaves. "lastuse neurons --help" has the formats of files.
    #[arg(long, value_name = "STATS", num_args = 1.., conflicts_with = "layers")]
    hotness: Vec<PathBuf>,

    /// Write which neurons are on the device, for PowerInfer (.gpuidx).
    #[arg(long, short, value_name = "FILE", requires = "hotness")]
    output: Option<PathBuf>,

    /// The order in which tensors are placed while there is room.
    #[arg(long, value_name = "ORDER", default_value = "benefit", conflicts_with = "layers")]
    order: OrderArgument,

    /// Place whole layers: a contiguous range on each device, the first layers on the host.
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

/// Reads the graphs and places their weights and caches.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    arguments.output.as_deref().map(check_ending).transpose().map_err(Failure::usage)?;
    let mut devices = device::with_host(&arguments.devices).map_err(Failure::usage)?;
    let files = expanded(&arguments.files);
    let progress = Progress::start(&files[0]);
    let snapshots = read_all(&files)?;
    device::complete(&mut devices, &arguments.devices, &snapshots);
    let mut found = CapturedItems::of(&snapshots).map_err(|why| why.to_string())?;
    if found.items.is_empty() {
        return Err("the graphs have no weights or caches: no tensor has memory before they run".to_owned().into());
    }
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
    let order = match arguments.order {
        OrderArgument::Benefit => Order::Benefit,
        OrderArgument::Classes => Order::Classes,
        OrderArgument::Given => Order::Given,
    };
    let request = Request { order, ..Request::new(&devices, &found.items) };
    let place = |op_offload: bool| {
        let compute = CapturedCompute::new(&snapshots, &found, &devices, rule(arguments, op_offload));
        let mut compute = compute.with_pipelines(arguments.devices.iter().all(|argument| argument.has_events));
        best_variant(&request, arguments.layers, &mut compute)
    };
    let mut op_offload = !arguments.no_op_offload;
    let mut placed = place(op_offload);
    if op_offload && matches!(placed, Err(NotPlaced::Infeasible(_))) {
        // Without copies of weights that stay on the host, the compute buffers may fit.
        op_offload = false;
        placed = place(op_offload);
    }
    let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
    drop(progress);
    let unreserved = arguments.devices.iter().find(|argument| !argument.is_reserve_given && !arguments.json);
    if let Some(DeviceArgument { device, .. }) = unreserved {
        print_notice(&format!(
            "{}: nothing is reserved for the context and the pools of its driver, often some hundreds of MiB: give less than the \
             free memory, or such as reserve=600MiB after the budget (reserve=0 if nothing is needed)",
            device.name
        ));
    }
    let (text, code) = match placed {
        Ok(mut placed) => {
            let neurons = ffns.map(|ffns| ffns.fill(&devices, &mut placed)).transpose()?;
            if let (Some(file), Some(neurons)) = (&arguments.output, &neurons) {
                let output = Output::open(file)?;
                output.write(&neurons.file()?)?;
            }
            let mut for_llama_cpp = llama_cpp::arguments(&devices, &found.items, &placed.assignment);
            if !op_offload && !for_llama_cpp.is_empty() {
                for_llama_cpp.push("--no-op-offload".to_owned());
            }
            let text = if arguments.json {
                let mut json = offload_json(&devices, &found.items, &placed, &for_llama_cpp);
                if let Some(neurons) = &neurons {
                    json["neurons"] = neurons.json();
                }
                format!("{json:#}\n")
            } else {
                let neurons = neurons.map(|neurons| neurons.text()).unwrap_or_default();
                formatted(&devices, &found.items, &placed, milliseconds, &for_llama_cpp) + &neurons
            };
            (text, ExitCode::SUCCESS)
        }
        Err(NotPlaced::Infeasible(shortages)) => {
            print_error(&NotPlaced::Infeasible(shortages.clone()).to_string());
            let text = if arguments.json { format!("{:#}\n", infeasible(&shortages)) } else { String::new() };
            (text, ExitCode::FAILURE)
        }
        Err(why) => return Err(why.to_string().into()),
    };
    print(text.as_bytes())?;
    Ok(code)
}

fn check_ending(file: &Path) -> Result<(), String> {
    if is_stream(file) { Ok(()) } else { by_ending(file, &[(".gpuidx", ())]) }
}

fn read_all(files: &[PathBuf]) -> Result<Vec<Snapshot>, String> {
    let read = |file: &PathBuf| {
        Input::read_graph(file)
            .map(|snapshot| unscheduled(&snapshot))
            .map_err(|why| format!("{}: {why}", file.display()))
    };
    files.iter().map(read).collect()
}

fn rule(arguments: &Arguments, op_offload: bool) -> CapturedRule {
    match arguments.rule {
        RuleArgument::Scheduler => {
            CapturedRule::Scheduler(SchedulerOptions { op_offload, ..SchedulerOptions::default() })
        }
        RuleArgument::AnyOperand => CapturedRule::AnyOperand,
        RuleArgument::Powerinfer => CapturedRule::PowerInfer,
    }
}

fn formatted(
    devices: &[Device],
    items: &[Item],
    placed: &OffloadPlan,
    milliseconds: f64,
    arguments: &[String],
) -> String {
    let gain: f64 = items.iter().map(|item| item.benefit).sum();
    let part = if gain > 0.0 { 100.0 * placed.benefit / gain } else { 0.0 };
    let mut text = offload_text(devices, items, placed);
    let _ = writeln!(
        text,
        "{part:.1} % of the bytes that runs read of weights and caches are on devices; {} measured in {milliseconds:.0} ms",
        counted(placed.measurements.into(), "offload plan")
    );
    if !arguments.is_empty() {
        let _ = writeln!(text, "llama.cpp: {}", quoted(arguments));
        text += "(for the program that was captured, with lastuse and its default rules, and with -c, -b, -ub, -np, -fa and cache types as \
                 captured; compute buffers are larger with ggml-alloc)\n";
    }
    text
}

/// Returns arguments as a shell takes them.
fn quoted(arguments: &[String]) -> String {
    let quote = |argument: &String| {
        let is_plain = argument.chars().all(|c| c.is_ascii_alphanumeric() || "-,._".contains(c));
        if is_plain { argument.clone() } else { format!("'{argument}'") }
    };
    arguments.iter().map(quote).collect::<Vec<_>>().join(" ")
}

fn offload_json(devices: &[Device], items: &[Item], placed: &OffloadPlan, arguments: &[String]) -> Value {
    let of_device = |(device, usage): (&Device, &lastuse::offload::planner::Usage)| {
        json!({
            "name": device.name,
            "budget": device.budget,
            "weights": usage.weights,
            "kv": usage.caches,
            "compute": usage.compute,
            "reserve": usage.reserve,
            "total": usage.total(),
        })
    };
    let of_item = |(item, place): (&Item, &lastuse::offload::planner::Place)| json!({ "name": item.name, "bytes": item.bytes, "layer": item.layer, "device": devices[place.device].name });
    json!({
        "format": "lastuse-device-offload",
        "version": 1,
        "fits": true,
        "devices": devices.iter().zip(&placed.usage).map(of_device).collect::<Vec<_>>(),
        "tensors": items.iter().zip(&placed.assignment.0).map(of_item).collect::<Vec<_>>(),
        "llama_cpp": arguments,
        "measurements": placed.measurements,
    })
}

fn infeasible(shortages: &[Shortage]) -> Value {
    let of = |shortage: &Shortage| {
        json!({ "name": shortage.device, "budget": shortage.budget, "needed": shortage.needed,
            "short": shortage.needed.saturating_sub(shortage.budget) })
    };
    let shortages: Vec<Value> = shortages.iter().map(of).collect();
    json!({ "format": "lastuse-device-offload", "version": 1, "fits": false, "shortages": shortages })
}
