//! The test programs in `programs/` whose cases pass with exit code 0: one test for each case. And every program is
//! run: here, or by another test.

mod support;

use std::process::ExitCode;
use std::sync::{PoisonError, RwLock};

use lastuse_c_tests::{Driver, Linked, Program, cases, folder};
use lastuse_vendor::Package;
use libtest_mimic::Trial;
use support::expect;
use support::trials::{of_cases, of_function};

/// Programs that get lastuse, which verifies every plan, with upstream's allocator under other names, on the ggml of
/// llama.cpp.
const PROGRAMS: [&str; 28] = [
    "budget_setting",
    "combined_passes",
    "ctx_tensors",
    "contexts",
    "dedicate",
    "differential",
    "effort_settings",
    "failures",
    "keep_inputs",
    "lifecycle",
    "long_run",
    "measure",
    "pipeline",
    "offload",
    "plan_check_faults",
    "recomputed_views",
    "plan_cache",
    "remove_copies",
    "removed_copies",
    "reorder",
    "reorder_setting",
    "rule_settings",
    "rules",
    "steps",
    "struct_sizes",
    "truth",
    "unread_inputs",
    "unusual_graphs",
];

/// Programs that run on other ggmls too, or on these alone: the label of the tests, the program, and the ggml.
const ON_GGML: [(&str, &str, Package); 15] = [
    ("accounting_on_ggml_0_26", "accounting", Package::LlamaCpp),
    ("accounting_on_ggml_0_9_5", "accounting", Package::WhisperCpp),
    ("pipeline_on_ggml_0_28", "pipeline", Package::LlamaCpp4),
    ("recompute_on_ggml_0_26", "recompute", Package::LlamaCpp),
    ("recompute_on_ggml_0_9_5", "recompute", Package::WhisperCpp),
    ("retain_on_ggml_0_26", "retain", Package::LlamaCpp),
    ("retain_on_ggml_0_9_5", "retain", Package::WhisperCpp),
    ("retain_names_on_ggml_0_26", "retain_names", Package::LlamaCpp),
    ("retain_names_on_ggml_0_9_5", "retain_names", Package::WhisperCpp),
    ("split_on_ggml_0_26", "split", Package::LlamaCpp),
    ("split_on_ggml_0_9_5", "split", Package::WhisperCpp),
    ("verify_on_ggml_0_26", "verify", Package::LlamaCpp),
    ("verify_on_ggml_0_9_5", "verify", Package::WhisperCpp),
    ("verify_on_ggml_0_28", "verify", Package::LlamaCpp4),
    ("verify_newer_on_ggml_0_28", "verify_newer", Package::LlamaCpp4),
];

/// Those of `PROGRAMS` that run on the ggml of whisper.cpp as well, under these names.
const ALSO_ON_0_9_5: [(&str, &str); 6] = [
    ("budget_setting_on_ggml_0_9_5", "budget_setting"),
    ("dedicate_on_ggml_0_9_5", "dedicate"),
    ("pipeline_on_ggml_0_9_5", "pipeline"),
    ("offload_on_ggml_0_9_5", "offload"),
    ("reorder_setting_on_ggml_0_9_5", "reorder_setting"),
    ("steps_on_ggml_0_9_5", "steps"),
];

/// The end of the names of cases that compute on several threads. ggml's threads wait for each other without sleeping, so
/// on few cores two of these cases at once take many times as long: each is run alone.
const ON_THREADS: &str = "threads";

/// Each program is run here, or built by a test target that runs all of its cases.
fn every_program_is_run() {
    let others: Vec<Driver> = expect(Driver::all()).into_iter().filter(|driver| driver.name != "programs").collect();
    let mut checked = 0;
    for entry in folder().join("programs").read_dir().expect("the folder is there") {
        let path = entry.expect("the folder can be read").path();
        let [file, name] =
            [path.file_name(), path.file_stem()].map(|name| name.and_then(|it| it.to_str()).expect("UTF-8"));
        checked += 1;
        if PROGRAMS.contains(&name) || ON_GGML.iter().any(|(_, program, _)| *program == name) {
            continue;
        }
        let cases = if file.ends_with(".c") { expect(cases(name)) } else { Vec::new() };
        let drivers: Vec<&Driver> = others.iter().filter(|driver| driver.builds(file)).collect();
        let unrun: Vec<_> = drivers.iter().map(|driver| (&driver.name, driver.not_run(&cases))).collect();
        assert!(!drivers.is_empty(), "no test builds {file}");
        assert!(unrun.iter().any(|(_, cases)| cases.is_empty()), "{file} has cases that no test runs: {unrun:?}");
    }
    assert!(checked > PROGRAMS.len(), "{checked} programs were found");
}

/// Runs a case, alone if it computes on several threads.
fn passes(program: &Program, case: &str) {
    static RUNNING: RwLock<()> = RwLock::new(());
    let is_alone = case.ends_with(ON_THREADS);
    // Nothing is guarded but the cores, so that a case that failed does not matter.
    let _beside = (!is_alone).then(|| RUNNING.read().unwrap_or_else(PoisonError::into_inner));
    let _alone = is_alone.then(|| RUNNING.write().unwrap_or_else(PoisonError::into_inner));
    support::passes(program, &[case]);
}

/// Puts the second half of the tests between those of the first. All cases of a program wait until it is built: two cores then
/// build two programs.
fn from_both_halves(mut trials: Vec<Trial>) -> Vec<Trial> {
    let mut others = trials.split_off(trials.len().div_ceil(2)).into_iter();
    trials.into_iter().flat_map(|trial| [Some(trial), others.next()]).flatten().collect()
}

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for name in PROGRAMS {
        let build = move || support::build_with_both(name);
        trials.extend(of_cases(name, name, build, passes));
    }
    let also = ALSO_ON_0_9_5.map(|(label, name)| (label, name, Package::WhisperCpp));
    for (label, name, package) in ON_GGML.into_iter().chain(also) {
        let build = move || support::build(label, name, &support::ggml(package), Linked::Both(&support::checked()));
        trials.extend(of_cases(label, name, build, passes));
    }
    trials.push(of_function("every_program_is_run", every_program_is_run));
    let mut trials = from_both_halves(trials);
    // Last, so that no other core waits for them, and no program is built meanwhile.
    trials.sort_by_key(|trial| trial.name().ends_with(ON_THREADS));
    support::trials::run(trials)
}
