//! `lastuse run --accounting` and `lastuse accounting`: tables, JSON and pages of programs that know nothing of lastuse.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::{Package, target_folder};
use serde_json::Value;

use super::schema::assert_follows_schema;
use crate::support::{self, llama_style, tool};

/// lastuse failed before the program started.
const FAILED: i32 = 125;

pub fn run(arguments: &[&str]) -> Output {
    tool::command(arguments).output().expect("the tool starts")
}

/// An empty folder for the files of a test.
pub fn folder(name: &str) -> PathBuf {
    let path = target_folder().join("c-tests/files-of-accounting").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("the target folder can be written to");
    path
}

pub fn path_of(program: &Program) -> &str {
    program.path().to_str().expect("UTF-8")
}

pub fn number(text: &str, key: &str) -> u64 {
    let found = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')?.parse().ok());
    found.unwrap_or_else(|| panic!("no {key} in {text}"))
}

pub fn own_buffers(package: Package, label: &str) -> Program {
    support::build(
        &format!("own-buffers{label}"),
        "tests/records/accounting/own_buffers.c",
        &support::ggml(package),
        Linked::SharedGgml,
    )
}

/// The accounting of the only process, which follows the schema.
fn accounting_of(report: &Value) -> &Value {
    let all = report["accounting"].as_array().expect("a list");
    assert_eq!(all.len(), 1, "{report}");
    assert_follows_schema(&all[0]);
    &all[0]
}

/// Its only device.
pub fn device(accounting: &Value) -> &Value {
    let devices = accounting["devices"].as_array().expect("a list");
    assert_eq!(devices.len(), 1, "{devices:?}");
    &devices[0]
}

fn bytes(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// Everything that the program asks for is counted, although it frees it before it exits.
fn largest_moment_is_what_was_asked_for(package: Package, label: &str) {
    let program = own_buffers(package, label);
    let output = run(&["run", "--accounting", "--json", path_of(&program)]);
    assert_eq!(output.status.code(), Some(0), "{}", tool::stderr(&output));
    let printed = tool::stdout(&output);
    let report = tool::report(&output);
    let accounting = accounting_of(&report);
    let host = device(accounting);
    let (asked, mapped) = (number(printed, "asked"), number(printed, "mapped"));
    assert_eq!(bytes(&host["total"]), asked + mapped, "{accounting}");
    assert_eq!([bytes(&host["weights"]), bytes(&host["kv"])], [mapped, number(printed, "kv")], "{accounting}");
    assert_eq!(bytes(&host["other"]), 777, "{accounting}");
    assert!(bytes(&host["compute"]) > 0 && bytes(&host["free"]) > 0, "{accounting}");
    let of_buffers = accounting["buffers"].as_array().expect("a list");
    let is_mapped: Vec<&Value> = of_buffers.iter().filter(|buffer| buffer["mapped"] == true).collect();
    assert!(matches!(is_mapped[..], [one] if bytes(&one["asked"]) == mapped), "{of_buffers:?}");
    let tensors = accounting["graphs"][0]["tensors"].as_array().expect("a list");
    let named =
        |name: &str| tensors.iter().find(|tensor| tensor["name"] == name).unwrap_or_else(|| panic!("no {name}"));
    assert_eq!([&named("write")["class"], &named("write")["executes"]], ["kv", "CPU"]);
    assert_eq!([&named("x")["class"], &named("x")["buffer_type"]], ["compute", "counting"]);
    assert_eq!(
        [named("x")["first_step"].as_u64(), named("x")["last_step"].as_u64()].map(|step| step.is_some()),
        [true; 2]
    );
    assert_eq!(named("weight")["offset"], 0);
}

#[test]
fn everything_that_ggml_0_26_is_asked_for_is_counted() {
    largest_moment_is_what_was_asked_for(Package::LlamaCpp, "");
}

#[test]
fn everything_that_ggml_0_9_5_is_asked_for_is_counted() {
    largest_moment_is_what_was_asked_for(Package::WhisperCpp, "-0.9.5");
}

#[test]
fn language_model_keeps_its_results_and_its_weights_are_counted() {
    let program = llama_style::build("accounted-model", Package::LlamaCpp, Linked::SharedGgml);
    let page = folder("model").join("memory.html");
    let option = format!("--accounting={}", page.display());
    let arguments = ["run", &option, "--json", path_of(&program)];
    let output = run(&[&arguments[..], llama_style::SMALL].concat());
    assert_eq!(output.status.code(), Some(0), "{}", tool::stderr(&output));
    let alone = support::passes(&program, llama_style::SMALL);
    let hash = |text: &str| text.lines().find(|line| line.starts_with("logits_hash=")).map(str::to_owned);
    assert_eq!(hash(tool::stdout(&output)), hash(&alone.stdout));
    let report = tool::report(&output);
    let accounting = accounting_of(&report);
    let host = device(accounting);
    let compute = number(tool::stdout(&output), "compute_buffer_bytes");
    let buffers = accounting["buffers"].as_array().expect("a list");
    let of_compute = buffers.iter().filter(|buffer| buffer["usage"] == "compute").map(|buffer| bytes(&buffer["asked"]));
    assert!(of_compute.clone().any(|asked| asked == compute), "{:?}", of_compute.collect::<Vec<_>>());
    assert!(bytes(&host["kv"]) > 0 && bytes(&host["weights"]) > bytes(&host["kv"]), "{host}");
    let rows = report["allocators"].as_array().expect("a list").iter();
    let rows: Vec<&Value> = rows.flat_map(|row| row["buffers"].as_array().expect("a list")).collect();
    let all = |key: &str| rows.iter().map(|buffer| bytes(&buffer[key])).sum::<u64>();
    let without = bytes(&report["devices"][0]["ggml_alloc"]["compute"]);
    assert!(all("ggml_alloc") > all("bytes"), "{rows:?}");
    assert_eq!(without + all("bytes"), bytes(&host["compute"]) + all("ggml_alloc"), "{report}");
    let text = fs::read_to_string(&page).expect("it was drawn");
    assert!(text.contains("<details id=\"devices\">") && text.contains("<td>weights</td>"), "the page has the devices");
    let over_time = text.split_once("CPU, over ").map_or("", |(_, drawing)| drawing);
    assert!(over_time.contains("class=\"held\" d=") && over_time.contains("class=\"resident\" d="), "memory over time");
}

/// A cache takes memory for the cells that are used, which is reported although all is freed before the program exits.
#[test]
fn resident_bytes_are_reported_beside_reserved_ones() {
    let ggml = support::ggml(Package::LlamaCpp);
    let program = support::build("large-cache", "tests/records/accounting/large_cache.c", &ggml, Linked::SharedGgml);
    let report = |arguments: &[&str]| -> (String, Value) {
        let output = run(&[&["run", "--accounting", "--json"], arguments, &[path_of(&program)]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", tool::stderr(&output));
        (tool::stdout(&output).to_owned(), tool::report(&output))
    };
    let (printed, on_demand) = report(&[]);
    let (cache, used) = (number(&printed, "cache"), number(&printed, "used"));
    let kv = |report: &Value| bytes(&report["devices"][0]["resident"]["kv"]);
    assert_eq!(bytes(&on_demand["devices"][0]["kv"]), cache, "{on_demand}");
    assert!((used..=used + used / 10 + (64 << 10)).contains(&kv(&on_demand)), "{on_demand}");
    let (_, as_ggml) = report(&["--on-demand=off"]);
    assert!(kv(&as_ggml) >= cache, "{as_ggml}");
    let buffers = accounting_of(&on_demand)["buffers"].as_array().expect("a list");
    assert!(buffers.iter().any(|buffer| bytes(&buffer["resident"]) == kv(&on_demand)), "{buffers:?}");
    let text = run(&["run", path_of(&program)]);
    let rows: Vec<&str> = tool::stderr(&text).lines().skip_while(|line| !line.starts_with("device, MiB")).collect();
    assert!(
        matches!(rows[..], [_, cpu, resident, ..] if cpu.starts_with("CPU ") && resident.starts_with("  resident "))
    );
}

#[test]
fn tables_are_printed_and_files_follow_their_endings() {
    let program = own_buffers(Package::LlamaCpp, "-forms");
    let folder = folder("forms");
    for (name, part) in [
        ("tensors.txt", "graph of allocator 1: 3 leafs, 3 nodes\n"),
        ("tensors.json", "\"format\":\"lastuse-accounting\""),
    ] {
        let file = folder.join(name);
        let output = run(&["run", &format!("--accounting={}", file.display()), path_of(&program)]);
        assert_eq!(output.status.code(), Some(0), "{}", tool::stderr(&output));
        let tables = tool::stderr(&output);
        assert!(tables.contains("\ndevice  weights ") && tables.contains("\nbuffer  device  type "), "{tables}");
        assert!(tables.contains(" CPU     counting  ") || tables.contains("counting"), "{tables}");
        let text = fs::read_to_string(&file).expect("it was written");
        assert!(text.contains(part), "{text}");
        if name.ends_with(".json") {
            assert_follows_schema(&serde_json::from_str(&text).expect("JSON"));
        }
    }
    let text = fs::read_to_string(folder.join("tensors.txt")).expect("it was written");
    let weight = text.lines().find(|line| line.starts_with("weight ")).unwrap_or_else(|| panic!("{text}"));
    assert!(weight.contains(" f32 [128, 128, 1, 1] ") && weight.contains(" 65536 "), "{weight}");
    // The same tables are made of the JSON later.
    let file = folder.join("tensors.json");
    let file = file.to_str().expect("UTF-8");
    let later = run(&["accounting", "--tensors", file]);
    assert_eq!(tool::stdout(&later).lines().count(), text.lines().count(), "{}", tool::stdout(&later));
    let summary = run(&["accounting", file, file]);
    assert!(tool::stdout(&summary).starts_with("process "), "{}", tool::stdout(&summary));
    assert_eq!(tool::stdout(&summary).matches("\nbuffer  device  type ").count(), 2, "{}", tool::stdout(&summary));
    let malformed = run(&["accounting", folder.join("tensors.txt").to_str().expect("UTF-8")]);
    assert_eq!(malformed.status.code(), Some(1));
    assert!(
        tool::stderr(&malformed).contains("tensors.txt: not an accounting of lastuse: "),
        "{}",
        tool::stderr(&malformed)
    );
}

#[test]
fn programs_without_an_end_or_without_ggml_have_no_devices() {
    let program = own_buffers(Package::LlamaCpp, "-killed");
    let output = run(&["run", "--accounting", path_of(&program), "kill"]);
    assert_eq!(output.status.code(), Some(128 + 9), "{}", tool::stderr(&output));
    assert!(
        tool::stderr(&output).contains("devices: no process has written what they held"),
        "{}",
        tool::stderr(&output)
    );
    let output = run(&["run", "--accounting", "--json", "true"]);
    let report = tool::report(&output);
    assert_eq!(report["accounting"], Value::Array(Vec::new()));
    let output = run(&["run", "--json", "--", "true"]);
    let report = tool::report(&output);
    assert_eq!(report["accounting"], Value::Null, "nothing was asked for");
}

#[test]
fn unwritable_files_are_reported_before_the_program_starts() {
    let program = own_buffers(Package::LlamaCpp, "-unwritable");
    let output = run(&["run", "--accounting=/nonexistent/tensors.json", path_of(&program)]);
    assert_eq!(output.status.code(), Some(FAILED));
    assert!(
        tool::stderr(&output).contains("/nonexistent/tensors.json: cannot be written"),
        "{}",
        tool::stderr(&output)
    );
    assert_eq!(tool::stdout(&output), "");
}
