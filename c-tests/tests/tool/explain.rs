//! `lastuse explain`: text, JSON, messages, exit codes.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output};

use crate::support::tool::{self, assert_fails, finish, stderr, stdout};
use lastuse_vendor::target_folder;
use serde_json::{Value, json};

/// Returns `lastuse explain` with arguments; paths are relative to the repository.
fn explain(arguments: &[&str]) -> Command {
    let mut command = tool::command(&["explain"]);
    command.args(arguments).current_dir(lastuse_c_tests::folder().with_file_name(""));
    command
}

fn run(arguments: &[&str]) -> Output {
    explain(arguments).output().expect("the tool starts")
}

/// Exit code 0, no messages, and the output.
fn explained(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{arguments:?}");
    stdout(&output).to_owned()
}

/// A file in a separate folder for each test.
fn write(test: &str, name: &str, text: &str) -> String {
    let folder = target_folder().join("c-tests/explain-tool").join(test);
    fs::create_dir_all(&folder).expect("the target folder can be written to");
    let path = folder.join(name);
    fs::write(&path, text).expect("the target folder can be written to");
    path.to_str().expect("the target folder has a name in UTF-8").to_owned()
}

fn tensor(id: usize, op: &str, name: &str, size: u64, src: &[usize]) -> Value {
    let kind = if op == "NONE" { "leaf" } else { "node" };
    json!({"id": id, "kind": kind, "op": op, "desc": op, "name": name, "type": "f32", "ne": [size, 1, 1, 1],
        "nb": [1, size, size, size], "nbytes": size, "size": size, "buffer": 0, "flags": 0, "inplace": false,
        "external": false, "src": src})
}

/// A gate and its values, multiplied, and one more product in another buffer.
fn gated() -> String {
    let header = json!({"format": "lastuse-graph", "version": 1, "label": "gated", "n_leafs": 1, "n_nodes": 4,
        "buffers": [{"name": "CPU", "alignment": 32}, {"name": "GPU", "alignment": 32}]});
    let mut lines = [
        header,
        tensor(0, "NONE", "input", 32, &[]),
        tensor(1, "MUL_MAT", "gate", 3200, &[0]),
        tensor(2, "MUL_MAT", "values", 3200, &[0]),
        tensor(3, "GLU", "product", 3200, &[1, 2]),
        tensor(4, "MUL_MAT", "result", 64, &[3]),
    ];
    lines[5]["buffer"] = json!(1);
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn help_has_examples_and_exit_codes() {
    let help = explained(&["--help"]);
    let parts = ["Examples:\n  lastuse explain llama.jsonl", "Exit codes: 0 all explained, 1 ", "--json", "--rules"];
    for part in parts.into_iter().chain(["--effort", "--buffer", "--top"]) {
        assert!(help.contains(part), "{part} is not in\n{help}");
    }
}

#[test]
fn each_buffer_is_explained() {
    let text = explained(&["--rules", "ggml", &write("text", "gated.jsonl", &gated())]);
    let first = "\
gated: 4 nodes, steps counted from 0

Buffer 0, CPU: 9.38 KiB (9600 bytes), -0.3 % from ggml-alloc's 9.41 KiB (9632 bytes)
  Peak: step 2, GLU \"product\": 9.38 KiB (9600 bytes).
  Fragmentation: none, the plan is at its lower bound.

  Live at that step, largest first:
    bytes                    tensor                        defined  last use
     3200  3.13 KiB  33.3 %  MUL_MAT \"gate\", f32 [3200]    step 0   step 2, GLU \"product\"
                               from \"input\", f32 [32]
     3200  3.13 KiB  33.3 %  MUL_MAT \"values\", f32 [3200]  step 1   step 2, GLU \"product\"
                               from \"input\", f32 [32]
     3200  3.13 KiB  33.3 %  GLU \"product\", f32 [3200]     step 2   step 3, MUL_MAT \"result\"
                               from MUL_MAT \"gate\", f32 [3200]; MUL_MAT \"values\", f32 [3200]

  The largest, and what can be done about them:
    MUL_MAT \"gate\", f32 [3200], 3.13 KiB, 33.3 % of the peak
      without it the peak would be 6.25 KiB at step 2, GLU \"product\"
    MUL_MAT \"values\", f32 [3200], 3.13 KiB, 33.3 % of the peak
      without it the peak would be 6.25 KiB at step 2, GLU \"product\"
    GLU \"product\", f32 [3200], 3.13 KiB, 33.3 % of the peak
      without it the peak would be 6.28 KiB at step 1, MUL_MAT \"values\"
    This is inherent: 9.38 KiB (9600 bytes), 100.0 % of the peak, are live when step 2, GLU \"product\" runs, in every order \
of the nodes
      9.38 KiB for its sources and its result: with these sharing rules, no order and no placement takes less

  No memory is reused in place.

  Changes that lower the peak most, each alone:
    saves 3.09 KiB (3168 bytes): switch on the sharing rule \"rows\", which is valid on ggml's CPU backend: \
it puts GLU \"product\", 3.13 KiB, in the memory of MUL_MAT \"gate\"
      then the peak is step 1, MUL_MAT \"values\"
";
    assert!(text.starts_with(first), "{text}");
    assert!(text.contains("\n\nBuffer 1, GPU: 64 bytes; ggml-alloc needs the same\n"), "{text}");
    assert!(!text.contains('\u{1b}'), "colours are for terminals:\n{text}");
}

#[test]
fn one_buffer_can_be_selected() {
    let file = write("buffer", "gated.jsonl", &gated());
    for buffer in ["1", "GPU"] {
        let text = explained(&["--buffer", buffer, &file]);
        assert!(text.contains("\nBuffer 1, GPU: ") && !text.contains("Buffer 0"), "{text}");
    }
    let message = format!("{file}: there is no buffer \"TPU\"; the graph has 0 (CPU), 1 (GPU)");
    assert_fails(&run(&["--buffer", "TPU", &file]), &message);
}

#[test]
fn rest_of_a_long_list_is_summed_up() {
    let file = write("top", "gated.jsonl", &gated());
    let text = explained(&["--rules", "ggml", "--top", "1", &file]);
    assert!(text.contains("\n     6400  6.25 KiB  66.6 %  2 more tensors\n"), "{text}");
    let text = explained(&["--rules", "ggml", "--top", "0", &file]);
    assert!(text.contains("\n     9600  9.38 KiB  100.0 %  3 more tensors\n"), "{text}");
}

/// A normalization and the product after it, which Vulkan devices compute by one kernel, in a buffer of this name.
fn normalized(buffer: &str) -> String {
    let header = json!({"format": "lastuse-graph", "version": 1, "label": "normalized", "n_leafs": 2, "n_nodes": 3,
        "buffers": [{"name": buffer, "alignment": 32}]});
    let mut tensors = [
        tensor(0, "NONE", "input", 32, &[]),
        tensor(1, "NONE", "weight", 32, &[]),
        tensor(2, "RMS_NORM", "norm", 32, &[0]),
        tensor(3, "MUL", "scaled", 32, &[2, 1]),
        tensor(4, "SQR", "result", 32, &[3]),
    ];
    for tensor in &mut tensors {
        tensor["ne"] = json!([8, 1, 1, 1]);
        tensor["nb"] = json!([4, 32, 32, 32]);
    }
    tensors[1]["external"] = json!(true);
    [header].iter().chain(&tensors).map(|line| format!("{line}\n")).collect()
}

#[test]
fn fused_kernels_of_a_device_are_counted() {
    let file = write("kernels", "vulkan.jsonl", &normalized("Vulkan0"));
    let text = explained(&[&file]);
    for placement in ["Kernels of the device", "With the addresses of ggml-alloc", "If no memory were used twice"] {
        assert!(text.contains(&format!("  {placement}: 1 of 1 sequence fused, ")), "{placement} in\n{text}");
    }
    let told: Value = serde_json::from_str(&explained(&["--json", &file])).expect("JSON");
    let planned = &told["buffers"][0]["kernels"]["planned"];
    assert_eq!((&planned["fused"], &planned["not_fused"]), (&json!(1), &json!(0)), "{told}");
    for unknown in ["CPU", "MTL0"] {
        let text = explained(&[&write("kernels", "other.jsonl", &normalized(unknown))]);
        assert!(!text.contains("Kernels of the device"), "{unknown}:\n{text}");
    }
}

#[test]
fn json_has_everything() {
    let printed = explained(&["--json", "--rules", "ggml", "--top", "1", &write("json", "gated.jsonl", &gated())]);
    assert_eq!(printed.lines().count(), 1);
    let told: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!((&told["format"], &told["version"]), (&json!("lastuse-explanation"), &json!(1)));
    assert_eq!(
        (&told["label"], &told["nodes"], told["buffers"].as_array().map(Vec::len)),
        (&json!("gated"), &json!(4), Some(2))
    );
    let buffer = &told["buffers"][0];
    for (key, value) in [("size", 9600), ("lower_bound", 9600), ("ggml_alloc", 9632), ("fragmentation", 0), ("id", 0)] {
        assert_eq!(buffer[key], json!(value), "{key}");
    }
    let peak = &buffer["peak"];
    assert_eq!((&peak["step"], &peak["name"], &peak["op"]), (&json!(2), &json!("product"), &json!("GLU")));
    let input = json!({"name": "input", "op": "NONE", "type": "f32", "ne": [32, 1, 1, 1]});
    let tensor = json!({"name": "gate", "op": "MUL_MAT", "type": "f32", "ne": [3200, 1, 1, 1], "sources": [input],
        "bytes": 3200, "kept": null,
        "made": {"step": 0, "name": "gate", "op": "MUL_MAT"}, "last_read": {"step": 2, "name": "product", "op": "GLU"}});
    assert_eq!(peak["alive"][0], json!({"bytes": 3200, "tensors": [tensor], "room_for": null}));
    let advice = &buffer["advice"][0];
    assert_eq!((&advice["saves"], &advice["lower_bound"]), (&json!(3168), &json!(6432)));
    assert_eq!((&advice["change"], &advice["rule"]), (&json!("rule"), &json!("rows")));
}

#[test]
fn files_are_named_and_a_malformed_one_stops_no_other() {
    let good = write("several", "gated.jsonl", &gated());
    let cut = write("several", "cut.jsonl", gated().split_once("{\"buffer\":0").map_or("", |(start, _)| start));
    let missing = format!("{good}.missing");
    let output = run(&[&good, &cut, &missing, &good]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output).matches(&format!("{good}: gated: 4 nodes")).count(), 2, "{}", stdout(&output));
    let messages: Vec<&str> = stderr(&output).lines().collect();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages[0].starts_with(&format!("lastuse: error: {cut}: line 1: ")), "{}", messages[0]);
    assert_eq!(messages[1], format!("lastuse: error: {missing}: no such file"));
}

#[test]
fn folder_is_summed_up_by_graph_the_largest_first() {
    let small = gated().replace("\"gated\"", "\"small\"").replace("3200", "1600");
    let first = write("folder", "a-small.jsonl", &small);
    let second = write("folder", "b-large.jsonl", &gated());
    let folder = Path::new(&first).parent().and_then(Path::to_str).expect("a folder in UTF-8");
    let text = explained(&["--rules", "ggml", folder]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "2 graphs, the largest first; it is explained below, and all with --all");
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words(lines[2]), "MiB ggml-alloc ratio a change saves largest at the peak graph");
    assert_eq!(
        words(lines[3]),
        format!("0.01 0.01 0.997 0.00 MUL_MAT \"gate\", f32 [3200], 0.00 MiB {second}: gated, 4 nodes")
    );
    assert!(lines[4].ends_with(&format!("{first}: small, 4 nodes")), "{text}");
    assert_eq!(lines[6], format!("{second}: gated: 4 nodes, steps counted from 0"));
    assert!(!text.contains("small: 4 nodes"), "{text}");
    for all in [&["--all", folder][..], &[&first, &second]] {
        let text = explained(all);
        assert!(text.contains(": small: 4 nodes") && text.contains(": gated: 4 nodes"), "{text}");
    }
    assert_eq!(explained(&["--json", folder]).lines().count(), 2);
}

#[test]
fn only_graphs_can_be_explained() {
    let file = write("csv", "blocks.csv", "id,lower,upper,size\n0,0,1,16\n");
    assert_fails(
        &run(&[&file]),
        &format!("{file}: this is a CSV file, not a graph; \"lastuse plan\" and \"lastuse convert\" read it"),
    );
}

#[test]
fn wrong_usage_has_its_own_exit_code() {
    for arguments in
        [&[][..], &["--json"], &["--top", "few", "file"], &["--rules", "mine", "file"], &["--draw", "file"]]
    {
        let output = run(arguments);
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""), "{arguments:?}");
    }
}

/// The tool waiting for a graph on its standard input.
fn waiting() -> Child {
    tool::spawn(explain(&["-"]))
}

#[test]
fn minus_is_the_standard_input() {
    let output = finish(waiting(), &gated());
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    assert!(stdout(&output).starts_with("gated: 4 nodes"), "{}", stdout(&output));
}

#[test]
fn closed_output_is_no_failure() {
    let mut child = waiting();
    drop(child.stdout.take());
    let output = finish(child, &gated());
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let full = Path::new("/dev/full");
    let file = write("full", "gated.jsonl", &gated());
    let device = fs::OpenOptions::new().write(true).open(full).expect("the device can be opened");
    let output = explain(&[&file]).stdout(device).output().expect("the tool starts");
    assert_fails(&output, "cannot print: No space left on device (os error 28)");
}
