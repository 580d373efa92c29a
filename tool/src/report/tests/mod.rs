//! Graphs from files, and plans to files.

mod malformed;

use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{Corruption, Flags, GraphPlan, PlanError, Rules, TensorId, View, simulate};
use lastuse::placement::{Bytes, Effort, validate};
use serde_json::{Value, json};

use crate::formats::Malformed;
use crate::formats::plan_json;
use crate::formats::read_graph;
use crate::testing::Random;

/// Returns a header for two leafs, four nodes and two buffers.
fn header() -> Value {
    json!({"format": "lastuse-graph", "version": 1, "label": "sample", "n_leafs": 2, "n_nodes": 4, "buffers": [
        {"name": "CPU", "alignment": 32, "max_size": null, "ggml_alloc_size": 4096},
        {"name": "GPU", "alignment": 256, "max_size": 1024}]})
}

fn tensor(id: u64, kind: &str, op: &str, size: u64, src: &[u64]) -> Value {
    json!({"id": id, "kind": kind, "op": op, "desc": op, "name": format!("{op} {id}"), "type": "f32",
        "ne": [size, 1, 1, 1], "nb": [1, size, size, size], "nbytes": size, "size": size, "buffer": 0, "flags": 0,
        "inplace": false, "external": false, "src": src})
}

/// Returns the lines of a file: the header, leafs 5 and 7, nodes 10 to 13, and 99, which is in no list.
fn sample() -> Vec<Value> {
    let mut lines = vec![
        header(),
        tensor(5, "leaf", "NONE", 100, &[]),
        tensor(7, "leaf", "NONE", 100, &[]),
        tensor(10, "node", "MUL_MAT", 100, &[7, 5]),
        tensor(11, "node", "UNARY", 100, &[10]),
        tensor(12, "node", "VIEW", 60, &[11]),
        tensor(13, "node", "ADD", 100, &[12, 99, 12]),
        tensor(99, "extra", "NONE", 8, &[]),
    ];
    for (line, key, value) in [
        (1, "flags", json!(1)),
        (2, "external", json!(true)),
        (4, "inplace", json!(true)),
        (5, "view_of", json!(11)),
        (5, "view_offset", json!(40)),
        (6, "buffer", json!(1)),
        (6, "flags", json!(2)),
    ] {
        lines[line][key] = value;
    }
    lines
}

/// Returns the lines of a chain: leaf 1 and the nodes 2 and 3.
fn chain() -> Vec<Value> {
    let mut header = header();
    (header["n_leafs"], header["n_nodes"]) = (json!(1), json!(2));
    let [a, b] = [(2, 1), (3, 2)].map(|(id, source)| tensor(id, "node", "SQR", 64, &[source]));
    vec![header, tensor(1, "leaf", "NONE", 64, &[]), a, b]
}

fn text(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn read(text: impl AsRef<[u8]>) -> Result<Snapshot, Malformed> {
    read_graph(text.as_ref())
}

fn good(lines: &[Value]) -> Snapshot {
    read(text(lines)).expect("the file is well-formed")
}

/// Expects an error in this line that starts with `reason`.
fn assert_malformed(text: impl AsRef<[u8]>, line: usize, reason: &str) {
    let found = read(text).expect_err(reason);
    assert!(
        found.line == Some(line) && found.reason.starts_with(reason),
        "{found}, but expected line {line}: {reason}"
    );
}

/// Returns the sample with another value; the first line of the file is 1.
fn with(line: usize, key: &str, value: Value) -> String {
    let mut lines = sample();
    lines[line - 1][key] = value;
    text(&lines)
}

fn without(line: usize, key: &str) -> String {
    let mut lines = sample();
    lines[line - 1].as_object_mut().expect("each line is an object").remove(key).expect("the key was there");
    text(&lines)
}

fn simulated(snapshot: &Snapshot, plan: &GraphPlan) -> Result<(), Corruption> {
    let nbytes: Vec<Bytes> = snapshot.tensors.iter().map(|tensor| tensor.nbytes).collect();
    simulate(&snapshot.graph, plan, &nbytes)
}

#[test]
fn file_is_read_as_written() {
    let snapshot = good(&sample());
    assert_eq!(snapshot.label, "sample");
    assert_eq!(snapshot.graph.leafs(), [0, 1]);
    assert_eq!(snapshot.graph.nodes(), [2, 3, 4, 5]);
    assert_eq!(snapshot.requested_buffers(), (vec![0, 0], vec![0, 0, 0, 1]));
    assert_eq!(snapshot.graph.sources(5), [4, 6, 4]);
    assert_eq!(snapshot.graph.tensor(4).view, Some(View { root: 3, offset: 40 }));
    let is = |property: fn(&lastuse::graph::Tensor) -> bool| -> Vec<TensorId> {
        (0..).zip(snapshot.graph.tensors()).filter(|(_, tensor)| property(tensor)).map(|(id, _)| id).collect()
    };
    assert_eq!(is(|tensor| tensor.flags.has(Flags::INPUT)), [0]);
    assert_eq!(is(|tensor| tensor.flags.has(Flags::OUTPUT)), [5]);
    assert_eq!(is(|tensor| tensor.external), [1]);
    assert_eq!(is(|tensor| tensor.in_place.is_listed()), [3]);
    assert_eq!(is(lastuse::graph::Tensor::is_marker), [0, 1, 6]);
    let info = &snapshot.tensors[6];
    assert_eq!((info.id, info.name.as_str(), info.nbytes, info.size, info.buffer), (99, "NONE 99", 8, 8, 0));
}

#[test]
fn buffers_are_read_with_their_limits() {
    let snapshot = good(&sample());
    let [cpu, gpu] = &snapshot.buffers[..] else { panic!("there are two buffers") };
    assert_eq!((cpu.name.as_str(), cpu.alignment, cpu.max_size, cpu.ggml_alloc_size), ("CPU", 32, None, Some(4096)));
    assert_eq!((gpu.name.as_str(), gpu.alignment, gpu.max_size, gpu.ggml_alloc_size), ("GPU", 256, Some(1024), None));
    let buffers: Vec<_> = snapshot
        .buffers(Rules::GGML, Effort::default())
        .iter()
        .map(|buffer| (buffer.alignment, buffer.max_chunk))
        .collect();
    assert_eq!(buffers, [(32, None), (256, Some(1024))]);
}

#[test]
fn equal_element_types_have_equal_ids() {
    let mut lines = sample();
    lines[4]["type"] = json!("f16");
    let snapshot = good(&lines);
    let element = |id| snapshot.graph.layout(id).element;
    assert!(element(0) == element(2) && element(2) != element(3));
}

#[test]
fn json_has_the_whole_plan() {
    let snapshot = good(&sample());
    let plan = snapshot.plan(Rules::ALL).expect("sizes are small");
    assert_eq!(simulated(&snapshot, &plan), Ok(()));
    let document = document(&snapshot, &plan);
    assert_eq!(
        [&document["format"], &document["version"], &document["label"]],
        [&json!("lastuse-plan"), &json!(1), &json!("sample")]
    );
    let buffers = plan.buffers.iter().zip(&snapshot.buffers).map(|(plan, buffer)| {
        json!({"name": buffer.name, "size": plan.placement.size(), "chunks": plan.placement.chunks,
            "lower_bound": plan.lower_bound, "optimal": plan.is_optimal(), "strategy": plan.strategy})
    });
    assert_eq!(document["buffers"], Value::Array(buffers.collect()));
    let owners = [(5, 0, 128), (10, 2, 128), (11, 3, 128), (13, 5, 256), (99, 6, 256)];
    let tensors = owners.map(|(id, tensor, size): (u64, usize, u64)| {
        let address = plan.address(plan.allocations[tensor].expect("it has memory"));
        json!({"id": id, "buffer": address.buffer, "chunk": address.chunk, "offset": address.offset, "size": size})
    });
    assert_eq!(document["tensors"], json!(tensors));
}

fn document(snapshot: &Snapshot, plan: &GraphPlan) -> Value {
    let text = plan_json(snapshot, plan, None).expect("the data is plain");
    assert!(!text.contains('\n'), "a plan is one line");
    serde_json::from_str(&text).expect("the plan is JSON")
}

#[test]
fn tensors_in_place_have_the_location_of_their_source() {
    let snapshot = good(&sample());
    let document = document(&snapshot, &snapshot.plan(Rules::ALL).expect("sizes are small"));
    let tensors = document["tensors"].as_array().expect("a list");
    let location = |id: u64| {
        let tensor = tensors.iter().find(|tensor| tensor["id"] == id).expect("it is in the plan");
        (&tensor["buffer"], &tensor["chunk"], &tensor["offset"])
    };
    assert_eq!(location(10), location(11));
}

#[test]
fn unknown_keys_are_ignored() {
    let mut lines = sample();
    for line in &mut lines {
        line["later versions"] = json!({"may": ["say", 1, null, -2.5]});
    }
    lines[0]["buffers"][0]["colour"] = json!("red");
    assert_eq!(good(&lines).graph.nodes().len(), 4);
}

#[test]
fn label_name_and_offset_may_be_absent() {
    for (line, key) in [(1, "label"), (2, "name"), (2, "desc"), (6, "view_offset")] {
        assert!(read(without(line, key)).is_ok(), "{key}");
    }
}

#[test]
fn blank_lines_are_skipped_and_counted() {
    let spread = format!("\n \t\n{}\n", text(&sample()).replace('\n', "\r\n\r\n"));
    assert_eq!(read(&spread).map(|snapshot| snapshot.tensors.len()), Ok(7));
    assert_malformed(spread.replace("\"id\":10", "\"id\":5"), 9, "id 5 is there twice");
}

#[test]
fn last_line_needs_no_newline() {
    assert!(read(text(&sample()).trim_end()).is_ok());
}

#[test]
fn errors_have_their_line() {
    let malformed = Malformed { line: Some(7), reason: "it is wrong".to_owned() };
    assert_eq!(malformed.to_string(), "line 7: it is wrong");
}

/// Values for numbers, some of which are ids, and some at the limits of a type.
const NUMBERS: [u64; 12] = [0, 1, 2, 5, 10, 11, 12, 99, 1 << 31, (1 << 62) - 32, 1 << 63, u64::MAX];

/// Changes one value somewhere.
fn mangle(random: &mut Random, lines: &mut [Value]) {
    let line = &mut lines[random.below(8) as usize];
    let keys: Vec<String> = line.as_object().expect("each line is an object").keys().cloned().collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).chain(["view_of", "view_offset"]).collect();
    let key = keys[random.below(u32::try_from(keys.len()).expect("few keys")) as usize];
    let number = json!(NUMBERS[random.below(12) as usize]);
    match &mut line[key] {
        Value::Array(values) if !values.is_empty() => values[0] = number,
        Value::Bool(value) => *value = !*value,
        Value::String(op) if key == "op" => "NONE".clone_into(op),
        value => *value = number,
    }
}

/// Returns whether a tensor is viewed that is in no list and has no memory. No step defines the value of such a root.
fn views_undefined_tensor(snapshot: &Snapshot) -> bool {
    let graph = &snapshot.graph;
    let listed = |id| graph.leafs().contains(&id) || graph.nodes().contains(&id);
    let mut roots = graph.tensors().iter().filter_map(|tensor| tensor.view).map(|view| view.root);
    roots.any(|root| !listed(root) && !graph.tensor(root).external)
}

#[test]
fn mangled_files_are_refused_or_have_a_valid_plan() {
    let mut random = Random::new(11);
    let (mut planned, mut refused) = (0, 0);
    for _ in 0..5000 {
        let mut lines = sample();
        mangle(&mut random, &mut lines);
        while random.chance(60) {
            mangle(&mut random, &mut lines);
        }
        match read(text(&lines)) {
            Err(_) => refused += 1,
            Ok(snapshot) if views_undefined_tensor(&snapshot) => {}
            Ok(snapshot) => planned += u32::from(has_valid_plan(&snapshot, &lines)),
        }
    }
    assert!(planned > 500 && refused > 500, "{planned} planned, {refused} refused");
}

/// Returns whether there is a plan, and checks that it is valid.
fn has_valid_plan(snapshot: &Snapshot, lines: &[Value]) -> bool {
    let Ok(plan) = snapshot.plan(Rules::ALL) else { return false };
    for (problem, buffer) in plan.problems.iter().zip(&plan.buffers) {
        assert_eq!(validate(problem, &buffer.placement), Ok(()), "{}", text(lines));
    }
    assert_eq!(simulated(snapshot, &plan), Ok(()), "{}", text(lines));
    document(snapshot, &plan);
    true
}
