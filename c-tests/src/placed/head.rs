//! The output head on the host: its copy in the compute buffer of the device may be as large as itself.

use std::path::PathBuf;

use lastuse::graph::snapshot::Snapshot;
use lastuse::offload::captured::{CapturedCompute, CapturedItems, CapturedRule};
use lastuse::offload::device::Device;
use lastuse::offload::item::ItemClass;
use lastuse::offload::planner::{Assignment, Measure, Place, Request, Usage};
use lastuse::offload::rules::{SchedulerOptions, unscheduled};

use super::program::{Asked, PlacedProgram};
use super::sweep::PlacedCase;
use crate::{Result, read_graph};

/// The bytes requested from a device with the output head and without.
#[derive(Clone, Debug)]
pub struct HeadOnHost {
    /// The bytes of the head.
    pub head: u64,
    /// With all weights and caches on the device.
    pub with: Asked,
    /// With the head alone on the host.
    pub without: Asked,
    /// A difference from the prediction.
    pub wrong: Vec<String>,
}

/// The matrix of the output head in llama.cpp's models.
const HEAD: &str = "output.weight";

/// Runs a case of one device with everything there, and with the output head on the host, and compares the requested
/// bytes with the planned ones.
///
/// # Errors
/// When something cannot be run.
pub fn head_on_host(case: &PlacedCase, program: &PlacedProgram, alignment: u64) -> Result<HeadOnHost> {
    let model = program.model(&case.model)?;
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let files = program.capture("head", &model, &words(case.program))?;
    let prediction = Prediction::of(&files, case.devices[0], alignment)?;
    let override_head = ["-ot".to_owned(), format!("^{}$=CPU", HEAD.replace('.', "\\."))];
    let mut wrong = Vec::new();
    let mut asked = |is_head_there: bool| -> Result<Asked> {
        let more: &[String] = if is_head_there { &[] } else { &override_head };
        let run = program.run(&model, &[&words(case.program), &words("-ngl 99"), more].concat(), true)?;
        let asked = run.devices.get(case.devices[0]).copied().filter(|_| run.is_complete());
        let asked = asked.ok_or_else(|| run.describe())?;
        let planned = prediction.usage(is_head_there)?;
        let found = (asked.weights, asked.kv, asked.compute);
        if (planned.weights, planned.caches, planned.compute) != found {
            wrong.push(format!("planned {planned:?}, asked for {asked:?}"));
        }
        Ok(asked)
    };
    let (with, without) = (asked(true)?, asked(false)?);
    if without.compute <= with.compute {
        wrong.push("the compute buffer has no copy of the head".to_owned());
    }
    Ok(HeadOnHost { head: prediction.head, with, without, wrong })
}

/// The bytes planned for all on a device, with the head or without.
struct Prediction {
    snapshots: Vec<Snapshot>,
    found: CapturedItems,
    devices: [Device; 2],
    head: u64,
}

impl Prediction {
    fn of(files: &[PathBuf], device: &str, alignment: u64) -> Result<Self> {
        let read = |file: &PathBuf| read_graph(file).map(|snapshot| unscheduled(&snapshot));
        let snapshots = files.iter().map(read).collect::<Result<Vec<_>>>()?;
        let found = CapturedItems::of(&snapshots).map_err(|why| why.to_string())?;
        let head = found.items.iter().find(|item| item.name == HEAD).map(|item| item.bytes);
        let head = head.ok_or_else(|| format!("the graphs have no {HEAD}"))?;
        let devices = [Device { alignment, ..Device::new(device) }, Device::new("cpu")];
        Ok(Self { snapshots, found, devices, head })
    }

    fn usage(&self, is_head_there: bool) -> Result<Usage> {
        let items = &self.found.items;
        let place = |item: &lastuse::offload::item::Item| {
            let is_on_host = item.class == ItemClass::Embedding || (item.name == HEAD && !is_head_there);
            Place { device: usize::from(is_on_host), rows: None }
        };
        let assignment = Assignment(items.iter().map(place).collect());
        let rule = CapturedRule::Scheduler(SchedulerOptions::default());
        let mut compute = CapturedCompute::new(&self.snapshots, &self.found, &self.devices, rule);
        let bytes = compute.measure(&assignment)?;
        let request = Request::new(&self.devices, items);
        let usage = Usage::of_items(&request, &assignment, 0).ok_or("sizes overflow")?;
        Ok(Usage { compute: bytes[0], ..usage })
    }
}
