//! `lastuse compare` of two files: what grew between accountings, reports and captures, and its exit codes.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Output;

use flate2::Compression;
use flate2::write::GzEncoder;
use lastuse_vendor::target_folder;
use serde_json::{Value, json};

use crate::support::tool::{command, stderr, stdout};

const MIB: u64 = 1 << 20;

fn compare(words: &[&str]) -> Output {
    command(&[&["compare"], words].concat()).output().expect("the tool starts")
}

fn folder(test: &str) -> PathBuf {
    let path = target_folder().join("c-tests/compare-tool").join(test);
    fs::create_dir_all(&path).expect("the target folder can be written to");
    path
}

fn write(test: &str, name: &str, content: &Value) -> String {
    let path = folder(test).join(name);
    fs::write(&path, content.to_string()).expect("the target folder can be written to");
    path.to_str().expect("the target folder has a name in UTF-8").to_owned()
}

fn graph(name: &str) -> String {
    let path = lastuse_c_tests::folder().join("graphs").join(format!("{name}.jsonl.gz"));
    path.to_str().expect("UTF-8").to_owned()
}

/// A device with caches of some MiB in two layers.
fn accounting(mib: u64) -> Value {
    let bytes = mib * MIB;
    let tensor = |layer: u64| {
        json!({"name": format!("cache_k_l{layer}"), "op": "NONE", "type": "f16", "ne": [bytes / 4, 1, 1, 1], "class": "kv",
            "bytes": bytes / 2, "view_of": null, "resides": "Vulkan0", "buffer_type": "Vulkan0", "buffer": 1,
            "offset": layer * bytes / 2, "first_step": 0, "last_step": 1, "executes": null})
    };
    let sums = json!({"weights": 0, "kv": bytes, "compute": 0, "other": 0, "rounding": 0, "total": bytes});
    let with_sums = |mut row: Value| {
        let keys = row.as_object_mut().expect("an object");
        keys.extend(sums.as_object().expect("an object").clone());
        row
    };
    json!({"format": "lastuse-accounting", "version": 1, "process": 7, "ggml": "0.26.0",
        "devices": [with_sums(json!({"name": "Vulkan0", "description": "", "kind": "gpu", "free": null, "memory": null,
            "history": []}))],
        "buffers": [with_sums(json!({"id": 1, "device": "Vulkan0", "buffer_type": "Vulkan0", "usage": "any",
            "mapped": false, "asked": bytes, "bytes": bytes, "resident": null}))],
        "graphs": [{"allocator": 1, "leafs": 2, "nodes": 0, "tensors": [tensor(0), tensor(1)]}],
        "unread": [], "turns": []})
}

#[test]
fn accountings_and_reports_tell_the_tensors_that_grew() {
    let [old, new] = [8, 331].map(|mib| write("accountings", &format!("{mib}.json"), &accounting(mib)));
    let with_tensors = write("accountings", "report.json", &json!({"devices": [], "accounting": [accounting(331)]}));
    let last = "Vulkan0: +323.00 MiB, all of it cache_k_l* (kv)";
    for new in [new, with_tensors] {
        let output = compare(&[&old, &new]);
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
        assert_eq!(stdout(&output).lines().last(), Some(last));
    }
    let devices = json!({"devices": [{"process": 7, "name": "Vulkan0", "weights": 0, "kv": 9 * MIB, "compute": 0, "other": 0,
        "rounding": 0, "total": 9 * MIB}]});
    let report = write("accountings", "devices.json", &devices);
    let output = compare(&["--bytes", &report, &old]);
    assert!(stdout(&output).contains("Vulkan0: -1048576 bytes, all of it kv\n"), "{}", stdout(&output));
}

#[test]
fn captures_tell_what_is_live_at_the_peaks() {
    let [old, new] = ["sd-sd1-unet-512", "sd-sd1-unet-1024"].map(graph);
    let output = compare(&[&old, &new]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    let last = "CPU: +7785.00 MiB, of which +7680.00 MiB are MUL_MAT node_* (compute)";
    assert_eq!(stdout(&output).lines().last(), Some(last), "{}", stdout(&output));
    let compared: Value = serde_json::from_str(stdout(&compare(&["--json", &old, &new]))).expect("JSON");
    assert_eq!((&compared["format"], &compared["version"]), (&json!("lastuse-comparison"), &json!(1)));
    let change = &compared["changes"][0];
    let causes = change["causes"].as_array().expect("a list");
    let sum: i64 = causes.iter().filter_map(|cause| cause["change"].as_i64()).sum();
    assert_eq!(Some(sum), change["change"].as_i64());
    assert_eq!(stdout(&compare(&[&old, &old])).lines().last(), Some("CPU: the same"));
}

#[test]
fn compressed_accountings_are_read() {
    let [old, new] = [8, 331].map(|mib| write("compressed", &format!("{mib}.json"), &accounting(mib)));
    let compressed = format!("{new}.gz");
    let mut encoder = GzEncoder::new(fs::File::create(&compressed).expect("it can be written"), Compression::fast());
    encoder.write_all(&fs::read(&new).expect("it was written")).and_then(|()| encoder.finish()).expect("compressed");
    let output = compare(&[&old, &compressed]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    assert_eq!(stdout(&output).lines().last(), Some("Vulkan0: +323.00 MiB, all of it cache_k_l* (kv)"));
}

#[test]
fn other_files_are_refused() {
    let whole = write("refused", "whole.json", &accounting(8));
    let cut = folder("refused").join("cut.json");
    fs::write(&cut, &accounting(8).to_string()[..200]).expect("the target folder can be written to");
    let cut = cut.to_str().expect("UTF-8");
    let off = write("refused", "off.json", &json!({"devices": null}));
    let graph = graph("llama-8-flash");
    let of_later = write("refused", "later.json", &json!({"format": "lastuse-measurement", "version": 99}));
    let cases: [(&[&str], i32, &str); 7] = [
        (&[&of_later, &whole], 1, "later.json: not a measurement of lastuse: version 99; expected version 1"),
        (&["--top", "-1", &whole, &whole], 2, "--top -1: not a whole number, or too large"),
        (&[&whole, cut], 1, "cut.json: not whole JSON: "),
        (&[cut, cut], 1, "cut.json: not whole JSON: "),
        (&[&whole, &off], 1, "off.json: the report does not say what devices held"),
        (&[&whole, &graph], 2, "whole.json is an accounting or a report, and "),
        (&[&whole, &whole, "--json"], 2, "--json: options come before the files"),
    ];
    for (words, code, message) in cases {
        let output = compare(words);
        assert_eq!((output.status.code(), stdout(&output)), (Some(code), ""), "{words:?}");
        assert!(
            stderr(&output).starts_with("lastuse: error: ") && stderr(&output).contains(message),
            "{}",
            stderr(&output)
        );
    }
}
