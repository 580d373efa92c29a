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

use super::advice::advice;
use super::check::{Checked, DryRuns, known, used_devices};
use super::device::{self, HOST};
use super::kinds::{Kind, Planned};
use super::planning::Planner;
use super::report::{OF_PROGRAM, formatted, offload_json, quoted};
use super::table::{Row, kinds_json, kinds_text};
use super::{Arguments, items, not_placed, read_all};
use crate::input::graphs_in;
use crate::launch::{Launcher, NotStarted};
use crate::measure::{Copies, DryRun, Request};
use crate::output::{Progress, print, print_error, print_notice, print_tables};
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
    let chosen = arguments.kind.unwrap_or(Kind::Layers);
    let selection = selected(&devices, &used);
    let mut dry_runs = DryRuns::new(&mut launcher);
    refuse_other_devices(&selection, &used, &mut dry_runs)?;
    let has_events = planner.has_events;
    let planner = Planner {
        op_offload: planner.op_offload && !is_kept_on_host,
        has_events: has_events && may_have_pipelines(&selection, &mut dry_runs),
        ..planner
    };
    let done = Attempt::best(&planner, &found, chosen, &selection, &mut dry_runs)?;
    let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
    let Attempt { rows, checked, wrong, allocators } = match done {
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
    if has_events && !planner.has_events {
        print_notice(&format!(
            "planned as with events=off: with all layers on the devices, a dry run of {} has no copies for pipelines",
            dry_runs.launcher.name()
        ));
    }
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
    if !wrong.is_empty() {
        let variables = std::env::vars_os().map(|(name, _)| name);
        advice(&arguments.program, variables, allocators).iter().for_each(|what| print_notice(what));
    }
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The plans of a program, and what a dry run with the arguments of one finds.
struct Attempt {
    rows: Vec<Row>,
    checked: Result<Checked, String>,
    /// What is not as planned, or why the program fails.
    wrong: Vec<String>,
    /// How many graph allocators the program has, as far as that is known.
    allocators: usize,
}

impl Attempt {
    /// Plans and verifies; or without operations on weights of the host if only that is exact, as where a device refuses
    /// what it would be given of layers on the host.
    fn best(
        planner: &Planner<'_>,
        found: &CapturedItems,
        chosen: Kind,
        selection: &[String],
        dry_runs: &mut DryRuns<'_>,
    ) -> Result<Result<Self, NotPlaced>, Failure> {
        let first = Self::new(planner, found, chosen, selection, dry_runs)?;
        if planner.op_offload && first.as_ref().is_ok_and(|first| !first.wrong.is_empty()) {
            let again = Self::new(&Planner { op_offload: false, ..*planner }, found, chosen, selection, dry_runs)?;
            if again.as_ref().is_ok_and(|again| again.wrong.is_empty()) {
                return Ok(again);
            }
        }
        Ok(first)
    }

    /// Plans each kind, with arguments that select the devices, and verifies the chosen one; or returns why that cannot
    /// be placed.
    fn new(
        planner: &Planner<'_>,
        found: &CapturedItems,
        chosen: Kind,
        selection: &[String],
        dry_runs: &mut DryRuns<'_>,
    ) -> Result<Result<Self, NotPlaced>, Failure> {
        let mut all: Vec<Planned> = Vec::new();
        for kind in Kind::ALL {
            match planner.of_kind(found, kind, &all) {
                Some(Ok(mut planned)) => {
                    planned.arguments.splice(..0, selection.iter().cloned());
                    all.push(planned);
                }
                Some(Err(why)) if kind == chosen => return Ok(Err(why)),
                Some(Err(_)) => {}
                None if kind == chosen => return Err(lacks(kind, found).into()),
                None => {}
            }
        }
        keep_possible(&mut all, chosen, dry_runs)?;
        let row = |planned: Planned| planner.per_token(&planned).map(|per_token| Row { planned, per_token });
        let rows = all.into_iter().map(row).collect::<Result<Vec<Row>, String>>()?;
        let planned = &rows.iter().find(|row| row.planned.kind == chosen).expect("it was planned").planned;
        // What the program does with the arguments is known only then: a device may refuse an operation.
        let dry_run = dry_runs.with(&planned.arguments).map_err(|why| format!("with these arguments {}", why.message));
        let allocators = dry_run.as_ref().map_or(0, |dry_run| dry_run.events.rows().len());
        let checked = dry_run.map(|dry_run| Checked::new(dry_run.accountings(), planner.devices, &planned.plan.usage));
        let wrong = match &checked {
            Ok(checked) => checked.differences.iter().map(ToString::to_string).collect(),
            Err(why) => vec![why.clone()],
        };
        Ok(Ok(Self { rows, checked, wrong, allocators }))
    }
}

/// Returns llama.cpp's argument for the devices of a plan, if the program uses others, or in another order.
fn selected(devices: &[Device], used: &[String]) -> Vec<String> {
    let planned: Vec<&str> = devices.iter().map(|device| &*device.name).filter(|name| *name != HOST).collect();
    if planned == used { Vec::new() } else { vec!["-dev".to_owned(), planned.join(",")] }
}

/// Refuses devices that have to be selected in a program that cannot do so.
fn refuse_other_devices(selection: &[String], used: &[String], dry_runs: &mut DryRuns<'_>) -> Result<(), Failure> {
    if selection.is_empty() {
        return Ok(());
    }
    let Err(why) = dry_runs.with(selection) else { return Ok(()) };
    Err(Failure::wrong_kind(format!(
        "{} fails with {:?}, llama.cpp's argument for the devices of the plan: without it, give --device for each device \
         that the program uses, in its order: {} (NAME=0 for one that is to stay empty)\n{}",
        dry_runs.launcher.name(),
        quoted(selection),
        used.join(", "),
        why.message
    )))
}

/// Returns whether the program computes in pipelines if all layers are on devices, or that is not known. A plan for fewer
/// layers could be exact either way, and yet have room for more without the copies of pipelines.
fn may_have_pipelines(selection: &[String], dry_runs: &mut DryRuns<'_>) -> bool {
    let all_layers = [selection, &ALL_LAYERS.map(str::to_owned)].concat();
    dry_runs.with(&all_layers).map_or(true, |dry_run| {
        let mut graphs = dry_run.accountings().flat_map(|accounting| &accounting.graphs);
        graphs.any(|graph| Copies::of(&graph.tensors).are_several())
    })
}

/// Leaves out kinds whose options the program does not have.
///
/// # Errors
/// It does not have those of the chosen kind.
fn keep_possible(all: &mut Vec<Planned>, chosen: Kind, dry_runs: &mut DryRuns<'_>) -> Result<(), NotStarted> {
    let mut refused = None;
    all.retain(|planned| {
        if !planned.kind.has_rare_option() {
            return true;
        }
        let failed = dry_runs.with(&planned.arguments).err();
        let is_taken = failed.is_none();
        if let Some(NotStarted { code, message }) = failed.filter(|_| planned.kind == chosen) {
            let kind = planned.kind.name();
            let given = quoted(&planned.arguments);
            let message =
                format!("the program does not take the arguments of --kind {kind}, {given}: choose another. {message}");
            refused = Some(NotStarted { code, message });
        }
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
        let program = launcher.name();
        let lacking = |dry_run: &DryRun| {
            let used = used_devices(dry_run.accountings());
            let other = devices.iter().find(|device| device.name != HOST && !used.contains(&device.name))?;
            let used = if used.is_empty() { "only the host".to_owned() } else { format!("but: {}", used.join(", ")) };
            Some(format!("{program} uses no device {:?}, {used}", other.name))
        };
        let (captured, found) = Self::with(launcher, &[])?;
        let Some(lacks) = lacking(&found) else { return Ok(captured) };
        let all_layers = ALL_LAYERS.map(str::to_owned);
        let (captured, found) = Self::with(launcher, &all_layers).map_err(|why| {
            Failure::wrong_kind(format!(
                "{lacks}; and fails with \"{}\", llama.cpp's argument for all layers on devices. Start it so that it uses the \
                 device, or capture its graphs (\"lastuse run --capture DIR\") and give these\n{why}",
                ALL_LAYERS.join(" ")
            ))
        })?;
        let Some(lacks) = lacking(&found) else { return Ok(captured) };
        // Its own arguments may leave a device out, or all of them.
        let names: Vec<&str> = devices.iter().map(|device| &*device.name).filter(|&name| name != HOST).collect();
        let split = ["-ts", &vec!["1"; names.len()].join(",")].map(str::to_owned);
        let selection = ["-dev", &names.join(",")].map(str::to_owned);
        for (selection, is_selected) in [(&[][..], false), (&selection, true)] {
            match Self::with(launcher, &[&all_layers, &split, selection].concat()) {
                Ok((captured, found)) if lacking(&found).is_none() => {
                    // Where it does not use them by itself, the plan selects them.
                    return Ok(if is_selected { Self { used: Vec::new(), ..captured } } else { captured });
                }
                _ => {}
            }
        }
        Err(Failure::usage(format!("with \"{}\", {lacks}", ALL_LAYERS.join(" "))))
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
        let used = used_devices(dry_run.accountings());
        Ok((Self { snapshots, unread, used }, dry_run))
    }
}
