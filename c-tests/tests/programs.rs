//! The test programs in `programs/` whose cases pass with exit code 0: one test for each case. And every program is
//! run: here, or by another test.

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{PoisonError, RwLock};

use lastuse_c_tests::{Linked, Program, cases, folder};
use lastuse_vendor::Package;
use libtest_mimic::Trial;
use support::expect;
use support::trials::{of_cases, of_function};

/// Programs that get lastuse, which verifies every plan, with upstream's allocator beside it, on the ggml of llama.cpp.
const PROGRAMS: [&str; 24] = [
    "budget_setting",
    "ctx_tensors",
    "contexts",
    "dedicate",
    "differential",
    "effort_settings",
    "failures",
    "lifecycle",
    "long_run",
    "measure",
    "pipeline",
    "placement",
    "plan_check_faults",
    "remembered",
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

/// Programs that also run on the ggml of whisper.cpp: the label of the tests, the program, and the ggml.
const ON_BOTH: [(&str, &str, Package); 12] = [
    ("accounting_on_ggml_0_26", "accounting", Package::LlamaCpp),
    ("accounting_on_ggml_0_9_5", "accounting", Package::WhisperCpp),
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
];

/// Those of `PROGRAMS` that run on the ggml of whisper.cpp as well, under these names.
const ALSO_ON_0_9_5: [(&str, &str); 6] = [
    ("budget_setting_on_ggml_0_9_5", "budget_setting"),
    ("dedicate_on_ggml_0_9_5", "dedicate"),
    ("pipeline_on_ggml_0_9_5", "pipeline"),
    ("placement_on_ggml_0_9_5", "placement"),
    ("reorder_setting_on_ggml_0_9_5", "reorder_setting"),
    ("steps_on_ggml_0_9_5", "steps"),
];

/// The end of the names of cases that compute on several threads. ggml's threads wait for each other without sleeping, so
/// on few cores two of these cases at once take many times as long: each is run alone.
const ON_THREADS: &str = "threads";

/// Programs whose every case is run by another test, which names them.
const RUN_ELSEWHERE: [(&str, &str); 16] = [
    ("context_freed", "contexts.rs"),
    ("context_memory", "contexts.rs"),
    ("context_misuse", "contexts.rs"),
    ("dependency", "new_graphs.rs"),
    ("dump", "dump/calls.rs"),
    ("explain", "new_graphs.rs"),
    ("faults", "faults.rs"),
    ("in_place_kernels", "in_place_kernels.rs"),
    ("last_error", "last_error.rs"),
    ("low_addresses", "low_addresses.rs"),
    ("moved_outputs", "new_graphs.rs"),
    ("outputs", "new_graphs.rs"),
    ("read_layouts", "read_layouts.rs"),
    ("rotating_copies", "faults.rs"),
    ("split_kernels", "split_kernels.rs"),
    ("written_layouts", "written_layouts.rs"),
];

/// The Rust sources of this package that may run a program.
fn drivers() -> BTreeMap<PathBuf, String> {
    let mut drivers = BTreeMap::new();
    let mut folders = vec![folder().join("tests"), folder().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().expect("the folder is there") {
            let path = entry.expect("the folder can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with(file!()) {
                let text = std::fs::read_to_string(&path).expect("the file can be read");
                drivers.insert(path, text);
            }
        }
    }
    drivers
}

/// A program without a table of cases only has to be named. All cases of the others are run, each named or none.
fn every_program_is_run() {
    let drivers = drivers();
    let is_named = |word: &str| drivers.values().any(|text| text.contains(&format!("\"{word}\"")));
    for entry in folder().join("programs").read_dir().expect("the folder is there") {
        let path = entry.expect("the folder can be read").path();
        let [file, name] =
            [path.file_name(), path.file_stem()].map(|name| name.and_then(|it| it.to_str()).expect("UTF-8"));
        let cases = if file.ends_with(".c") { expect(cases(name)) } else { Vec::new() };
        if PROGRAMS.contains(&name) || ON_BOTH.iter().any(|(_, program, _)| *program == name) {
            continue;
        } else if let Some((_, driver)) = RUN_ELSEWHERE.iter().find(|(program, _)| *program == name) {
            let text = &drivers[&folder().join("tests").join(driver)];
            assert!(text.contains(&format!("\"{name}\"")), "{driver} does not run {file}");
        } else {
            assert!(is_named(name) || is_named(&format!("programs/{file}")), "no test runs {file}");
            let unnamed: Vec<&String> = cases.iter().filter(|case| !is_named(case)).collect();
            assert!(unnamed.is_empty(), "{file}: no test runs {unnamed:?}");
        }
    }
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
    for (label, name, package) in ON_BOTH.into_iter().chain(also) {
        let build = move || support::build(label, name, &support::ggml(package), Linked::Both(&support::checked()));
        trials.extend(of_cases(label, name, build, passes));
    }
    trials.push(of_function("every_program_is_run", every_program_is_run));
    let mut trials = from_both_halves(trials);
    // Last, so that no other core waits for them, and no program is built meanwhile.
    trials.sort_by_key(|trial| trial.name().ends_with(ON_THREADS));
    support::trials::run(trials)
}
