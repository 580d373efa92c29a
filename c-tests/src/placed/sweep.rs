//! Budgets from nothing to everything: the planned bytes for each, and the bytes requested from the devices.

use std::path::PathBuf;

use super::program::{PlacedModel, PlacedProgram, PlacedRun};
use super::promise::{Promise, place, place_program};
use crate::Result;

/// A program, its devices, and how its weights and caches are placed.
#[derive(Clone, Copy, Debug)]
pub struct PlacedCase {
    /// Its name in the report.
    pub name: &'static str,
    /// The model.
    pub model: PlacedModel,
    /// Arguments that the program gets in each run.
    pub program: &'static str,
    /// The names of the devices.
    pub devices: &'static [&'static str],
    /// Properties of each device, for `lastuse offload`.
    pub properties: &'static str,
    /// The devices can compute in pipelines: where they refuse the copies of inputs, llama.cpp does without.
    pub has_pipelines: bool,
    /// Arguments of `lastuse offload`.
    pub place: &'static str,
    /// The kind of plan that `lastuse offload` makes for the program itself, with a check; otherwise it gets captured graphs.
    pub kind: Option<&'static str>,
    /// Budgets of each device, in thousandths of what all is.
    pub parts: &'static [u64],
}

/// A placement, and what became of it.
#[derive(Clone, Debug)]
pub struct PlacedRow {
    /// The budget of each device.
    pub budgets: Vec<u64>,
    /// The planned bytes; `None` if no placement is within the budgets.
    pub promise: Option<Promise>,
    /// The most that each device was asked for at a time.
    pub asked: Vec<u64>,
    /// A failed check.
    pub wrong: Vec<String>,
}

/// Room for everything, in bytes.
const ALL: u64 = 1 << 40;

struct Sweep<'a> {
    case: &'a PlacedCase,
    program: &'a PlacedProgram,
    model: PathBuf,
    graphs: Vec<PathBuf>,
}

/// Captures the graphs of a case once, asks for placements, and runs llama.cpp with each. `report` is called with each row
/// when its runs have ended.
///
/// # Errors
/// When something cannot be run.
pub fn sweep(case: &PlacedCase, program: &PlacedProgram, mut report: impl FnMut(&PlacedRow)) -> Result<Vec<PlacedRow>> {
    let model = program.model(&case.model)?;
    let label = case.name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let graphs = program.capture(&label, &model, &words(case.program))?;
    let sweep = Sweep { case, program, model, graphs };
    let everything = sweep.place(&vec![ALL; case.devices.len()])?;
    let everything = everything.ok_or_else(|| format!("{}: nothing is placed without limits", case.name))?;
    let totals: Vec<u64> = everything.devices.iter().map(|device| device.total).collect();
    let mut budgets: Vec<Vec<u64>> = Vec::new();
    for part in case.parts {
        budgets.push(totals.iter().map(|total| total.div_ceil(1000) * part).collect());
    }
    // The exact edges: all, and one byte less.
    budgets.push(totals.iter().map(|total| total.saturating_sub(1)).collect());
    budgets.push(totals);
    let mut rows = Vec::new();
    for budgets in budgets {
        let row = sweep.row(budgets)?;
        report(&row);
        rows.push(row);
    }
    Ok(rows)
}

impl Sweep<'_> {
    fn place(&self, budgets: &[u64]) -> Result<Option<Promise>> {
        let properties = self.case.properties;
        let device = |(name, bytes): (&&str, &u64)| format!("{name}={bytes}{properties}");
        let devices: Vec<String> = self.case.devices.iter().zip(budgets).map(device).collect();
        let arguments: Vec<&str> = self.case.place.split_whitespace().collect();
        match self.case.kind {
            Some(kind) => {
                let arguments = [&["--kind", kind, "--check"], arguments.as_slice()].concat();
                place_program(self.program, &self.model, &words(self.case.program), &devices, &arguments)
            }
            None => place(self.program, &self.model, &self.graphs, &devices, &arguments),
        }
    }

    /// Places within budgets and runs the program: as it is, with lastuse and devices that have exactly the planned
    /// bytes, and with each device having a byte less.
    fn row(&self, budgets: Vec<u64>) -> Result<PlacedRow> {
        let Some(promise) = self.place(&budgets)? else {
            return Ok(PlacedRow { budgets, promise: None, asked: Vec::new(), wrong: Vec::new() });
        };
        let limits: Vec<u64> = promise.devices.iter().map(|device| device.total).collect();
        let mut wrong = Vec::new();
        if limits.iter().zip(&budgets).any(|(total, budget)| total > budget) {
            wrong.push("more is promised than the budget".to_owned());
        }
        let run = self.run(&promise, Some(&limits))?;
        wrong.extend(differences(&promise, &run));
        let plain = self.run(&promise, None)?;
        if plain.logits != run.logits {
            wrong.push(format!("other logits without lastuse: {:?} and {:?}", plain.logits, run.logits));
        }
        wrong.extend(larger(&promise, &plain, &run));
        for device in 0..limits.len() {
            wrong.extend(self.refusal(&promise, &limits, device)?);
        }
        let asked = promise.devices.iter().map(|device| run.devices.get(&device.name).map_or(0, |asked| asked.peak));
        Ok(PlacedRow { budgets, asked: asked.collect(), promise: Some(promise), wrong })
    }

    /// Runs with lastuse within limits, or as it is without.
    fn run(&self, promise: &Promise, limits: Option<&[u64]>) -> Result<PlacedRun> {
        let mut arguments = words(self.case.program);
        arguments.extend(promise.arguments.iter().cloned());
        for (name, bytes) in self.case.devices.iter().zip(limits.unwrap_or_default()) {
            arguments.extend(["--limit".to_owned(), format!("{name}={bytes}")]);
        }
        self.program.run(&self.model, &arguments, limits.is_some())
    }

    /// Returns the failed checks when a device has a byte less than the plan needs: it must refuse, and the program
    /// must say so.
    fn refusal(&self, promise: &Promise, limits: &[u64], device: usize) -> Result<Option<String>> {
        let mut limits = limits.to_vec();
        let Some(less) = limits[device].checked_sub(1) else { return Ok(None) };
        limits[device] = less;
        let run = self.run(promise, Some(&limits))?;
        let name = &promise.devices[device].name;
        let is_refused = run.devices.get(name).is_some_and(|asked| asked.refused > 0);
        let is_without_pipelines = self.case.has_pipelines && run.is_complete() && is_refused;
        Ok((!run.has_failed() && !is_without_pipelines)
            .then(|| format!("{name} with {less} bytes, one less, does: {}", run.describe())))
    }
}

/// Returns which compute buffers are larger than without lastuse.
fn larger(promise: &Promise, plain: &PlacedRun, run: &PlacedRun) -> Vec<String> {
    let compute = |run: &PlacedRun, name: &str| run.devices.get(name).map_or(0, |asked| asked.compute);
    let names = promise.devices.iter().map(|device| device.name.as_str());
    let pairs = names.map(|name| (name, compute(plain, name), compute(run, name)));
    pairs
        .filter(|(_, before, after)| after > before)
        .map(|(name, before, after)| format!("{name}: compute buffers of {before} bytes become {after}"))
        .collect()
}

/// Returns the devices whose requested bytes differ from the plan.
fn differences(promise: &Promise, run: &PlacedRun) -> Vec<String> {
    let mut found = Vec::new();
    if !run.is_complete() {
        found.push(format!("within the promised limits: {}", run.describe()));
    }
    for device in &promise.devices {
        let Some(asked) = run.devices.get(&device.name) else {
            found.push(format!("nothing is known of {}", device.name));
            continue;
        };
        let kinds = [
            ("weights", device.weights, asked.weights),
            ("caches", device.kv, asked.kv),
            ("compute buffers", device.compute, asked.compute),
            ("the most at a time", device.total, asked.peak),
        ];
        let differing = kinds.iter().filter(|(_, promised, asked)| promised != asked);
        found.extend(differing.map(|(kind, promised, asked)| {
            format!("{}, {kind}: {promised} bytes promised, {asked} asked for", device.name)
        }));
    }
    found
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
