//! One command to what fits: graphs of a program by a dry run, the plan of each kind, and the arguments to start it with.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use lastuse::accounting::{AccountedTensor, MemoryClass};
use lastuse::graph::snapshot::Snapshot;
use lastuse::offload::captured::CapturedItems;
use lastuse::offload::device::Device;
use lastuse::offload::planner::NotPlaced;
use lastuse::placement::Bytes;
use serde_json::json;

use super::check::{Checked, dry_run, known, used_devices};
use super::device::{self, HOST};
use super::kinds::{Kind, Planned};
use super::planning::Planner;
use super::report::{OF_PROGRAM, formatted, offload_json};
use super::table::{Row, kinds_json, kinds_text};
use super::{Arguments, items, not_placed, read_all};
use crate::input::graphs_in;
use crate::launch::{Launcher, NotStarted};
use crate::measure::{DryRun, Request};
use crate::output::{Progress, print, print_error, print_tables};
use crate::settings::GuardUse;
use crate::usage::Failure;

/// llama.cpp's option to have operations on weights of the host stay there.
const NO_OP_OFFLOAD: &str = "--no-op-offload";

/// Arguments with which llama.cpp has all layers on devices.
const ALL_LAYERS: [&str; 2] = ["-ngl", "999"];

/// What a dry run tells of a program.
struct Captured {
    snapshots: Vec<Snapshot>,
    /// Names and bytes of weights that no graph reads.
    unread: Vec<(String, Bytes)>,
    /// The devices that the program uses, in its order.
    used: Vec<String>,
}

impl From<NotStarted> for Failure {
    fn from(why: NotStarted) -> Self {
        Self::with_code(why.code, why.message)
    }
}

/// Plans for a program, and prints the table of all kinds and the plan of one.
pub fn run(arguments: &Arguments, mut devices: Vec<Device>) -> Result<ExitCode, Failure> {
    let mut launcher = arguments.preload.launcher(&arguments.program)?;
    launcher.guard(GuardUse::of(&[]))?;
    launcher.measure()?;
    let progress = Progress::start(Path::new(&arguments.program[0]));
    progress.set("a dry run");
    let Captured { snapshots, unread, used } = Captured::of(&mut launcher, &devices)?;
    device::complete(&mut devices, &arguments.devices, &snapshots);
    let mut found = items(&snapshots).map_err(|why| format!("{why} (llama.cpp: give -c, or -fit off)"))?;
    found.add_unread(&launcher.name(), unread).map_err(|why| why.to_string())?;
    progress.set("placing");
    let started = Instant::now();
    let is_kept_on_host = arguments.program.iter().any(|word| word == NO_OP_OFFLOAD);
    let planner = arguments.planner(&snapshots, &devices);
    let planner = Planner { op_offload: planner.op_offload && !is_kept_on_host, ..planner };
    let chosen = arguments.kind.unwrap_or(Kind::Layers);
    let mut attempt = |planner: &Planner<'_>| Attempt::new(planner, &found, chosen, &used, &mut launcher);
    let mut done = attempt(&planner)?;
    if planner.op_offload && done.as_ref().is_ok_and(|done| !done.wrong.is_empty()) {
        // A device may refuse what it would be given of layers on the host.
        let again = attempt(&Planner { op_offload: false, ..planner })?;
        if again.as_ref().is_ok_and(|again| again.wrong.is_empty()) {
            done = again;
        }
    }
    let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
    let Attempt { rows, checked, wrong } = match done {
        Ok(done) => done,
        Err(why) => {
            drop(progress);
            return not_placed(why, arguments.json);
        }
    };
    let Planned { found, plan, arguments: for_llama_cpp, .. } =
        &rows.iter().find(|row| row.planned.kind == chosen).expect("it was planned").planned;
    drop(progress);
    arguments.tell_what_is_unreserved();
    if arguments.json {
        let mut json = offload_json(&devices, &found.items, plan, for_llama_cpp);
        json["kinds"] = kinds_json(&devices, &rows, chosen);
        json["checked"] = checked.as_ref().map_or_else(|why| json!({ "failed": why }), Checked::json);
        print(format!("{json:#}\n").as_bytes())?;
    } else {
        let mut text = kinds_text(&devices, &rows, chosen);
        text += &formatted(&devices, &found.items, plan, milliseconds, (for_llama_cpp, OF_PROGRAM));
        if let Some(checked) = checked.as_ref().ok().filter(|_| arguments.check && wrong.is_empty()) {
            text += &checked.text();
        }
        print_tables(&text)?;
    }
    wrong.iter().for_each(|why| print_error(why));
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The plans of a program, and what a dry run with the arguments of one finds.
struct Attempt {
    rows: Vec<Row>,
    checked: Result<Checked, String>,
    /// What is not as planned, or why the program fails.
    wrong: Vec<String>,
}

impl Attempt {
    /// Plans each kind, for a program that uses these devices, and verifies the chosen one; or returns why that cannot be placed.
    fn new(
        planner: &Planner<'_>,
        found: &CapturedItems,
        chosen: Kind,
        used: &[String],
        launcher: &mut Launcher,
    ) -> Result<Result<Self, NotPlaced>, Failure> {
        let mut all: Vec<Planned> = Vec::new();
        for kind in Kind::ALL {
            match planner.of_kind(found, kind, &all) {
                Some(Ok(mut planned)) => {
                    planned.arguments.splice(..0, selected(planner.devices, used));
                    all.push(planned);
                }
                Some(Err(why)) if kind == chosen => return Ok(Err(why)),
                Some(Err(_)) => {}
                None if kind == chosen => return Err(lacks(kind, found).into()),
                None => {}
            }
        }
        keep_possible(&mut all, chosen, launcher)?;
        let row = |planned: Planned| planner.per_token(&planned).map(|per_token| Row { planned, per_token });
        let rows = all.into_iter().map(row).collect::<Result<Vec<Row>, String>>()?;
        let planned = &rows.iter().find(|row| row.planned.kind == chosen).expect("it was planned").planned;
        // What the program does with the arguments is known only then: a device may refuse an operation.
        let checked = dry_run(launcher, &planned.arguments)
            .map(|dry_run| Checked::new(dry_run.accountings(), planner.devices, &planned.plan.usage))
            .map_err(|why| format!("with these arguments {}", why.message));
        let wrong = match &checked {
            Ok(checked) => checked.differences.iter().map(ToString::to_string).collect(),
            Err(why) => vec![why.clone()],
        };
        Ok(Ok(Self { rows, checked, wrong }))
    }
}

/// Returns llama.cpp's argument for the devices of a plan, if the program uses others, or in another order.
fn selected(devices: &[Device], used: &[String]) -> Vec<String> {
    let planned: Vec<&str> = devices.iter().map(|device| &*device.name).filter(|name| *name != HOST).collect();
    if planned == used { Vec::new() } else { vec!["-dev".to_owned(), planned.join(",")] }
}

/// Leaves out kinds whose options the program does not have.
///
/// # Errors
/// It does not have those of the chosen kind.
fn keep_possible(all: &mut Vec<Planned>, chosen: Kind, launcher: &mut Launcher) -> Result<(), NotStarted> {
    let mut refused = None;
    all.retain(|planned| {
        if !planned.kind.has_rare_option() {
            return true;
        }
        let failed = dry_run(launcher, &planned.arguments).err();
        let is_taken = failed.is_none();
        refused = failed.filter(|_| planned.kind == chosen).or(refused.take());
        is_taken
    });
    refused.map_or(Ok(()), Err)
}

/// Returns why there is no plan of a kind.
fn lacks(kind: Kind, found: &CapturedItems) -> String {
    let what = if kind == Kind::Experts { "experts" } else { "FFNs without experts" };
    format!("the model has no {what}, of {} weights and caches: choose another --kind", found.items.len())
}

impl Captured {
    /// Runs the program with its arguments or, if it does not use a device of the plan then, with all layers on devices.
    fn of(launcher: &mut Launcher, devices: &[Device]) -> Result<Self, Failure> {
        let lacking = |used: &DryRun| {
            let used = used_devices(used.accountings());
            devices.iter().find(|device| device.name != HOST && !used.contains(&device.name)).map(|it| it.name.clone())
        };
        let (captured, found) = Self::with(launcher, &[])?;
        if lacking(&found).is_none() {
            return Ok(captured);
        }
        let (captured, found) = Self::with(launcher, &ALL_LAYERS.map(str::to_owned))?;
        match lacking(&found) {
            Some(name) => {
                let used: Vec<String> = used_devices(found.accountings()).into_iter().collect();
                let used = if used.is_empty() { "none".to_owned() } else { used.join(", ") };
                Err(Failure::usage(format!(
                    "{} uses no device {name:?} with all layers on devices, but: {used}",
                    launcher.name()
                )))
            }
            None => Ok(captured),
        }
    }

    fn with(launcher: &mut Launcher, more: &[String]) -> Result<(Self, DryRun), Failure> {
        let folder = tempfile::Builder::new().prefix("graphs-").tempdir_in(launcher.folder());
        let folder = folder.map_err(|error| format!("cannot make a temporary folder: {error}"))?;
        let request = Request { settings: &[], more, captures: Some(folder.path()), is_verbose: false };
        let dry_run = known(DryRun::new(launcher, &request)?, launcher)?;
        let files = graphs_in(folder.path()).map_err(|error| format!("{}: {error}", folder.path().display()))?;
        let snapshots = read_all(&files)?;
        let all = dry_run.accountings().flat_map(|accounting| &accounting.unread);
        let is_weight = |tensor: &&AccountedTensor| {
            tensor.class == MemoryClass::Weights && tensor.view_of.is_none() && !tensor.name.is_empty()
        };
        let unread = all.filter(is_weight).map(|tensor| (tensor.name.clone(), tensor.bytes)).collect();
        let used = used_devices(dry_run.accountings()).into_iter().collect();
        Ok((Self { snapshots, unread, used }, dry_run))
    }
}
