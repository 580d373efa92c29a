//! `lastuse measure` on real programs: what it says is what their runs hold, and nothing is computed, read or written for it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Output;

use lastuse_c_tests::{Linked, folder, follows_schema};
use lastuse_vendor::{Package, target_folder};
use serde_json::Value;

use crate::support;
use crate::support::llama_style;
use crate::support::tool::command;

/// The bytes of the weights of `dry_run.c`.
const WEIGHTS: u64 = 256 << 20;

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn call(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the tool starts")
}

fn built(name: &str, source: &str) -> String {
    let ggml = support::ggml(Package::LlamaCpp);
    support::build(name, source, &ggml, Linked::SharedGgml).path().display().to_string()
}

fn program() -> String {
    built("dry-run", "tests/tool/dry_run.c")
}

/// Returns the path of a program that computes on GPU0 and the host.
pub fn program_with_device() -> String {
    built("dry-run-devices", "tests/tool/dry_run_devices.c")
}

fn new_folder(test: &str) -> PathBuf {
    let folder = target_folder().join("c-tests/measure-files").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the target folder can be written to");
    folder
}

/// Returns what is measured, which follows the committed schema.
fn measured(arguments: &[&str]) -> Value {
    let output = call(&[&["measure", "--json"], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).expect("one line of JSON");
    let schema = folder().with_file_name("docs").join("measurement.schema.json");
    let schema = serde_json::from_str(&fs::read_to_string(schema).expect("it is committed")).expect("JSON");
    follows_schema(&schema, &json).unwrap_or_else(|why| panic!("{why}"));
    json
}

/// Returns the device of that name of a process that was measured.
fn device<'a>(json: &'a Value, name: &str) -> &'a Value {
    let devices = json["processes"][0]["devices"].as_array().expect("a list");
    devices.iter().find(|device| device["name"] == name).unwrap_or_else(|| panic!("no {name} in {json}"))
}

/// Returns what each device would hold, or holds, by class.
fn sums(devices: &Value) -> Vec<(String, Vec<u64>)> {
    let classes = ["weights", "kv", "compute", "other", "rounding", "total"];
    let devices = devices.as_array().expect("a list").iter();
    devices
        .map(|it| (it["name"].to_string(), classes.iter().map(|class| it[*class].as_u64().expect("bytes")).collect()))
        .collect()
}

#[test]
fn measured_bytes_are_those_of_the_run() {
    let model = llama_style::build("measured", Package::LlamaCpp, Linked::SharedGgml);
    let words = [&[model.path().to_str().expect("UTF-8")], llama_style::SMALL].concat();
    let run = call(&[&["run", "--json"], words.as_slice()].concat());
    let run: Value = serde_json::from_str(stdout(&run).lines().last().unwrap_or_default()).expect("JSON");
    let json = measured(&words);
    let [process] = json["processes"].as_array().expect("a list").as_slice() else { panic!("one process: {json}") };
    assert_eq!(sums(&process["devices"]), sums(&run["devices"]));
    assert_eq!(process["devices"][0]["ggml_alloc"], run["devices"][0]["ggml_alloc"]);
    assert!(process["graphs_not_computed"].as_u64() > Some(0) && process["complete"] == true, "{process}");
    let table = call(&[&["measure", "--bytes", "--why"], words.as_slice()].concat());
    let text = stdout(&table);
    let total = process["devices"][0]["total"].to_string();
    for part in [total.as_str(), "with ggml-alloc", "CPU: fits; ", "CPU, compute: ", "not counted on CPU: "] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_eq!(stderr(&table), "");
}

#[test]
fn two_contexts_on_a_device_are_measured_as_they_run() {
    let program = program_with_device();
    let json = measured(&["--why", &program, "contexts"]);
    for on_demand in ["caches", "all"].map(|what| format!("--on-demand={what}")) {
        let run = call(&["run", "--json", &on_demand, &program, "contexts"]);
        let run: Value = serde_json::from_str(stdout(&run).lines().last().unwrap_or_default()).expect("JSON");
        let dry_run = measured(&[&on_demand, &program, "contexts"]);
        assert_eq!(sums(&dry_run["processes"][0]["devices"]), sums(&run["devices"]), "{on_demand}");
        assert_eq!(sums(&dry_run["processes"][0]["devices"]), sums(&json["processes"][0]["devices"]), "{on_demand}");
    }
    assert_eq!(sums(&json["processes"][0]["devices"]).len(), 2, "{json}");
    assert_eq!(json["processes"][0]["graphs_not_computed"], 3);
    let gpu = device(&json, "GPU0");
    let buffers = json["accounting"][0]["buffers"].as_array().expect("a list").iter();
    let compute = buffers.filter(|buffer| buffer["device"] == "GPU0").filter_map(|buffer| buffer["compute"].as_u64());
    let compute: Vec<u64> = compute.filter(|&bytes| bytes > 0).collect();
    assert_eq!((compute.len(), gpu["compute"].as_u64()), (2, Some(compute.iter().sum())), "{gpu}");
    // The device computes with the weights of the host, in the larger batches of the first context.
    let staged = "weights of the host, copied for large batches: leaf_*";
    let mut causes = gpu["causes"].as_array().expect("a list").iter();
    let staged = causes.find(|cause| cause["what"] == staged).unwrap_or_else(|| panic!("{gpu}"));
    assert_eq!(staged["bytes"], device(&json, "CPU")["weights"]);
}

#[test]
fn each_device_is_told_what_it_has_for_the_graph_that_needs_most_of_it() {
    let json = measured(&["--why", &program_with_device(), "batches"]);
    let graphs = json["accounting"][0]["graphs"].as_array().expect("a list");
    assert_eq!(
        graphs.iter().map(|graph| graph["allocator"].as_u64()).collect::<Vec<_>>(),
        [Some(1), Some(1)],
        "{json}"
    );
    for (name, what) in [("GPU0", "weights of the host, copied for large batches: leaf_*"), ("CPU", "MUL_MAT node_*")] {
        let device = device(&json, name);
        let causes = device["causes"].as_array().expect("a list").iter().filter(|cause| cause["class"] == "compute");
        let told: Vec<_> =
            causes.filter_map(|cause| Some((cause["what"].as_str()?, cause["bytes"].as_u64()?))).collect();
        assert!(told.iter().any(|(told, _)| told.ends_with(what)), "{device}");
        assert!(told.iter().all(|(what, _)| !what.starts_with("for other graphs")), "{device}");
        assert_eq!(Some(told.iter().map(|(_, bytes)| bytes).sum()), device["compute"].as_u64(), "{device}");
    }
}

#[test]
fn memory_that_contexts_share_is_measured_as_it_runs() {
    let program = program_with_device();
    let run = call(&["run", "--json", "--arena", &program, "contexts"]);
    let run: Value = serde_json::from_str(stdout(&run).lines().last().unwrap_or_default()).expect("JSON");
    let json = measured(&["--arena", &program, "contexts"]);
    let devices = &json["processes"][0]["devices"];
    assert_eq!(sums(devices), sums(&run["devices"]));
    for (measured, run) in devices.as_array().expect("a list").iter().zip(run["devices"].as_array().expect("a list")) {
        assert_eq!(measured["ggml_alloc"], run["ggml_alloc"]);
    }
    let apart = measured(&[&*program, "contexts"]);
    assert!(device(&json, "GPU0")["compute"].as_u64() < device(&apart, "GPU0")["compute"].as_u64(), "{json}");
}

#[test]
fn what_a_dry_run_holds_of_a_device_is_not_free() {
    let program = program_with_device();
    let json = measured(&[&*program, "fits"]);
    let layer = 10_u64 << 30;
    assert_eq!(device(&json, "GPU0")["weights"], 6 * layer, "{json}");
    assert_eq!(device(&json, "CPU")["weights"], layer, "{json}");
    assert!(json["peak_resident_bytes"].as_u64() < Some(300 << 20), "{json}");
}

#[test]
fn caches_take_memory_on_demand_unless_that_is_off() {
    let model = llama_style::build("measured-caches", Package::LlamaCpp, Linked::SharedGgml);
    let words = [&[model.path().to_str().expect("UTF-8")], llama_style::SMALL, &["--decode", "100000"]].concat();
    let json = measured(&words);
    let cpu = device(&json, "CPU");
    assert!(cpu["kv"].as_u64() > Some(32 << 20) && cpu["on_demand"] == cpu["kv"], "{cpu}");
    let off = measured(&[&["--on-demand=off"], words.as_slice()].concat());
    assert_eq!((&device(&off, "CPU")["kv"], device(&off, "CPU")["on_demand"].as_u64()), (&cpu["kv"], Some(0)));
    let table = |options: &[&str]| stdout(&call(&[&["measure"], options, &words].concat()));
    assert!(table(&[]).contains("  of it on demand "));
    assert!(!table(&["--on-demand=off"]).contains("on demand"));
}

#[test]
fn programs_are_ended_where_nothing_more_is_allocated() {
    let (program, folder) = (program(), new_folder("ends"));
    let file = folder.join("results");
    fs::write(&file, "earlier\n").expect("it can be written");
    let path = file.to_str().expect("UTF-8");
    for (arguments, models, why) in [
        (vec!["writes", path], 1, "it was about to write "),
        (vec!["opens-first", path], 1, "the program has ended"),
        (vec!["waits"], 1, "it waits for something to do"),
        (vec!["serves"], 1, "it waits for something to do"),
        (vec!["starts"], 2, "the program has ended"),
        (vec!["polls"], 2, "the program has ended"),
        (vec!["asks"], 2, "the program has ended"),
        (vec!["goes-on"], 1, "graphs in a row needed no buffer that was not there"),
        (vec!["reads-small"], 1, "the program has ended"),
    ] {
        let json = measured(&[&[&*program], arguments.as_slice()].concat());
        let process = &json["processes"][0];
        assert!(process["end"].as_str().is_some_and(|end| end.contains(why)), "{process}");
        assert_eq!(process["devices"][0]["weights"].as_u64().map(|bytes| bytes / WEIGHTS), Some(models), "{process}");
        assert!(process["devices"][0]["compute"].as_u64() > Some(0), "{process}");
        assert!(json["peak_resident_bytes"].as_u64() < Some(WEIGHTS / 2), "{json}");
    }
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "earlier\n");
}

#[test]
fn files_that_are_renamed_and_removed_stay() {
    let (program, folder) = (program(), new_folder("renamed"));
    let [file, old] = ["results", "results.old"].map(|name| folder.join(name));
    fs::write(&file, "earlier\n").expect("it can be written");
    fs::write(&old, "oldest\n").expect("it can be written");
    let json = measured(&[&*program, "renames", file.to_str().expect("UTF-8")]);
    assert!(json["processes"][0]["end"].as_str().is_some_and(|end| end.contains("has ended")), "{json}");
    assert_eq!([&file, &old].map(|path| fs::read_to_string(path).expect("it stays")), ["earlier\n", "oldest\n"]);
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 2);
    // The program does what it says where nothing is in its way.
    let run = call(&["run", &program, "renames", file.to_str().expect("UTF-8")]);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert_eq!([&file, &old].map(|path| fs::read_to_string(path).expect("they are written")), ["later\n", "again\n"]);
}

#[test]
fn files_of_scripts_stay() {
    let (program, folder) = (program(), new_folder("script"));
    let files = ["added", "removed", "replaced"].map(|name| folder.join(name));
    files.iter().for_each(|file| fs::write(file, "earlier\n").expect("it can be written"));
    let script = "cd \"$1\" && echo later >>added && rm removed && echo new >made && mv made replaced && mkdir folder \
                  && test ! -e removed && test \"$(cat replaced)\" = new && exec \"$2\" reads-small";
    let json = measured(&["sh", "-c", script, "sh", folder.to_str().expect("UTF-8"), &program]);
    assert!(json["processes"][0]["end"].as_str().is_some_and(|end| end.contains("has ended")), "{json}");
    for file in &files {
        assert_eq!(fs::read_to_string(file).expect("it stays"), "earlier\n", "{}", file.display());
    }
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), files.len());
}

#[test]
fn weights_are_not_read() {
    let (program, folder) = (program(), new_folder("weights"));
    let sparse = folder.join("weights");
    File::create(&sparse).and_then(|file| file.set_len(WEIGHTS)).expect("it can be written");
    let json = measured(&[&*program, "reads-small", sparse.to_str().expect("UTF-8")]);
    assert!(json["peak_resident_bytes"].as_u64() < Some(WEIGHTS / 2), "{json}");
    // A file that ends too early fails as it does in a run.
    File::create(&sparse).and_then(|file| file.set_len(WEIGHTS / 2)).expect("it can be written");
    let short = call(&["measure", &program, "reads-small", sparse.to_str().expect("UTF-8")]);
    assert_eq!(short.status.code(), Some(1), "{}", stderr(&short));
    assert!(stderr(&short).contains("cannot read "), "{}", stderr(&short));
}

#[test]
fn what_is_not_known_ends_it_with_an_error() {
    let program = program();
    let output = call(&["measure", &program, "reads-weights"]);
    let why = "it reads the tensor \"the.weights\", whose bytes a dry run leaves out";
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert!(stderr(&output).contains(why) && stdout(&output).contains("CPU "), "{}", stderr(&output));
    let failed = call(&["measure", &program, "fails"]);
    assert_eq!(failed.status.code(), Some(7));
    assert!(stderr(&failed).contains("it fails on purpose") && stdout(&failed).is_empty(), "{}", stderr(&failed));
    let other = call(&["measure", "true"]);
    assert_eq!(other.status.code(), Some(125));
    assert!(stderr(&other).contains("never used a ggml allocator"), "{}", stderr(&other));
    let missing = call(&["measure", Path::new("/no/such/program").to_str().expect("UTF-8")]);
    assert_eq!(missing.status.code(), Some(127));
}
