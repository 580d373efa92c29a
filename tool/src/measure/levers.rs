//! Options that may lower what a program takes. Each is tried by another dry run, so that what it saves is measured.

use std::collections::{BTreeMap, BTreeSet};

use lastuse::accounting::{AccountedTensor, MemoryClass};
use lastuse::placement::Bytes;
use lastuse::report::explain::Program;
use serde_json::{Value, json};

use super::causes::Copies;
use super::dry_run::{DryRun, Request};
use crate::launch::Launcher;
use crate::report::SizeUnit;

/// What saves less than this part of the bytes of each device is not told.
const LEAST_PART: Bytes = 1000;

/// An option to be tried.
pub struct Lever {
    /// Its name, for people.
    option: String,
    /// Arguments of the program.
    more: Vec<String>,
    /// Settings of the library.
    settings: Vec<(&'static str, String)>,
}

/// An option that lowers what some device holds.
pub struct Tried {
    pub option: String,
    pub saved: Vec<Saved>,
}

/// What an option saves on a device; negative where it adds.
pub struct Saved {
    device: String,
    before: Bytes,
    after: Bytes,
}

impl Saved {
    /// Formats it as a difference.
    pub fn text(&self, unit: SizeUnit) -> String {
        let Self { device, before, after } = self;
        let sign = if after < before { '-' } else { '+' };
        format!("{device} {sign}{} {}", unit.text(before.abs_diff(*after)), unit.name())
    }
}

impl Tried {
    /// Returns it as JSON.
    pub fn json(&self) -> Value {
        let devices: Vec<Value> = self
            .saved
            .iter()
            .map(|saved| json!({ "device": saved.device, "before": saved.before, "after": saved.after }))
            .collect();
        json!({ "option": self.option, "devices": devices })
    }
}

/// Returns what each device holds, of all processes.
fn totals(dry_run: &DryRun) -> BTreeMap<String, Bytes> {
    let mut all = BTreeMap::new();
    for device in dry_run.accountings().flat_map(|accounting| &accounting.devices) {
        *all.entry(device.name.clone()).or_default() += device.sums.total();
    }
    all
}

impl Lever {
    /// Returns what may help a program: its own options if it is llama.cpp's, and settings of lastuse.
    pub fn of(dry_run: &DryRun) -> Vec<Self> {
        let graphs: Vec<_> = dry_run.accountings().flat_map(|accounting| &accounting.graphs).collect();
        let tensors = || graphs.iter().flat_map(|graph| &graph.tensors);
        let is_llama_cpp = Program::of_names(tensors().map(|tensor| &*tensor.name)) == Some(Program::LlamaCpp);
        let copies: Vec<Copies<'_>> = graphs.iter().map(|graph| Copies::of(&graph.tensors)).collect();
        let mut all = Vec::new();
        if is_llama_cpp {
            let has = |what: &str| {
                let mut all = graphs.iter().zip(&copies);
                all.any(|(graph, copies)| graph.tensors.iter().any(|it| copies.reason(it).starts_with(what)))
            };
            let argument = |words: &str| Self {
                option: words.to_owned(),
                more: words.split(' ').map(str::to_owned).collect(),
                settings: Vec::new(),
            };
            let tokens = tensors().filter(|tensor| tensor.name == "inp_tokens").map(|tensor| tensor.ne[0]).max();
            if let Some(half) = tokens.map(|tokens| tokens / 2).filter(|&half| half >= 32) {
                all.push(argument(&format!("-ub {half}")));
            }
            let tried =
                [("-fa on", "scores of attention"), ("--no-op-offload", "weights of the host"), ("-np 1", "logits")];
            all.extend(tried.into_iter().filter(|(_, cause)| has(cause)).map(|(words, _)| argument(words)));
            if tensors().any(|tensor| tensor.class == MemoryClass::Cache && is_half(tensor)) {
                // Values of other types need flash attention.
                let has_scores = has("scores of attention");
                all.push(argument(if has_scores { "-ctk q8_0" } else { "-ctk q8_0 -ctv q8_0" }));
            }
        }
        let buffers = dry_run.accountings().flat_map(|accounting| &accounting.buffers);
        let most = buffers.map(|buffer| buffer.sums.compute).max().unwrap_or(0);
        let setting = |option: String, name: &'static str, value: String| Self {
            option,
            more: Vec::new(),
            settings: vec![(name, value)],
        };
        if copies.iter().any(Copies::are_several) {
            let option = "ggml built with GGML_SCHED_MAX_COPIES=1";
            all.push(setting(option.to_owned(), "LASTUSE_MEASURE_ONE_COPY", "on".to_owned()));
        }
        if most >= 2 << 20 {
            let half = (most >> 21).max(1);
            all.push(setting(format!("lastuse run --budget {half}MiB"), "LASTUSE_BUDGET", format!("{half}MiB")));
        }
        all.push(setting("lastuse run --reorder".to_owned(), "LASTUSE_REORDER", "on".to_owned()));
        if dry_run.events.rows().len() > 1 {
            all.push(setting("lastuse run --arena".to_owned(), "LASTUSE_ARENA", "shared".to_owned()));
        }
        all
    }

    /// Runs the program with the option. Returns what it saves, if anything; a program that has no such option fails.
    pub fn tried(&self, launcher: &mut Launcher, request: &Request<'_>, before: &DryRun) -> Option<Tried> {
        let is_set = |name: &str| request.settings.iter().any(|(given, _)| *given == name);
        if self.settings.iter().any(|(name, _)| is_set(name)) {
            return None;
        }
        let settings = [request.settings, &self.settings].concat();
        let changed = Request { settings: &settings, more: &self.more, ..*request };
        let after = totals(&DryRun::new(launcher, &changed).ok().filter(|after| after.unknown().is_none())?);
        let before = totals(before);
        let saves = before.iter().any(|(device, &all)| {
            let saved = all.saturating_sub(after.get(device).copied().unwrap_or(0));
            saved > 0 && saved >= all / LEAST_PART
        });
        let devices: BTreeSet<String> = before.keys().chain(after.keys()).cloned().collect();
        let saved = devices.into_iter().map(|device| {
            let [before, after] = [&before, &after].map(|totals| totals.get(&device).copied().unwrap_or(0));
            Saved { device, before, after }
        });
        saves.then(|| Tried { option: self.option.clone(), saved: saved.filter(|it| it.before != it.after).collect() })
    }
}

/// Returns `true` for a cache of 16 bits an element.
fn is_half(tensor: &AccountedTensor) -> bool {
    ["f16", "bf16"].contains(&&*tensor.element)
}
