//! Captured graphs survive writing and reading; malformed files are refused.

use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{InPlace, Rules, Slots, TensorId};
use lastuse::placement::{Block, Effort, Problem, lower_bound};
use serde_json::{Value, json};

use crate::formats::{graph_of_problem, read_graph};
use crate::testing::Random;

/// Names with everything that JSON or a reader of lines could stumble over.
const ODD_NAMES: [&str; 5] = ["", "a \"quoted\\ name\"", "line\nbreak\r\u{2028}", "\u{0}\u{1f}\u{7f}\t", "é𝄞\u{fffd}"];

fn read(text: &str) -> Snapshot {
    read_graph(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn tensor(id: usize, kind: &str, op: &str, src: &[usize]) -> Value {
    json!({"id": 3 * id, "kind": kind, "op": op, "desc": format!("{op}!"), "name": ODD_NAMES[id], "type": "f32",
        "ne": [25, 1, 1, 1], "nb": [4, 100, 100, 100], "nbytes": 100, "size": 128, "buffer": 0, "flags": 0,
        "inplace": false, "external": false, "src": src.iter().map(|&id| 3 * id).collect::<Vec<_>>()})
}

/// Every key of the format with a distinct value.
fn lines() -> Vec<Value> {
    let mut lines = vec![
        json!({"format": "lastuse-graph", "version": 1, "label": "odd \"label\"\n", "n_leafs": 1, "n_nodes": 3, "buffers": [
            {"name": "C\"PU", "alignment": 32, "max_size": null, "ggml_alloc_size": 4096, "rules": "ggml,views", "effort": 7},
            {"name": "GPU", "alignment": 256, "max_size": 1024}]}),
        tensor(0, "leaf", "NONE", &[]),
        tensor(1, "node", "SQR", &[0, 4]),
        tensor(2, "node", "VIEW", &[1]),
        tensor(3, "node", "RMS_NORM_BACK", &[2, 2]),
        tensor(4, "extra", "NONE", &[]),
    ];
    for (line, key, value) in [
        (1, "flags", json!(1)),
        (1, "external", json!(true)),
        (2, "elsewhere", json!([{"buffer": 1, "size": 160}])),
        (3, "view_of", json!(3)),
        (3, "view_offset", json!(16)),
        (4, "inplace", json!(true)),
        (4, "inplace_slots", json!(2)),
        (4, "buffer", json!(1)),
        (4, "flags", json!(18)),
        (5, "type", json!("q4_0")),
    ] {
        lines[line][key] = value;
    }
    lines
}

fn text(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn assert_same(found: &Snapshot, expected: &Snapshot) {
    assert_eq!((&found.label, &found.buffers, &found.tensors), (&expected.label, &expected.buffers, &expected.tensors));
    let (graph, other) = (&found.graph, &expected.graph);
    assert_eq!((graph.leafs(), graph.nodes()), (other.leafs(), other.nodes()));
    for id in (0..).take(expected.tensors.len()) {
        let fields = |snapshot: &Snapshot, id: TensorId| {
            let tensor = snapshot.graph.tensor(id);
            let sources = snapshot.graph.sources(id).to_vec();
            let layout = *snapshot.graph.layout(id);
            (tensor.flags, tensor.view, tensor.in_place, tensor.external, sources, layout)
        };
        assert_eq!(fields(found, id), fields(expected, id), "tensor {id}");
    }
}

#[test]
fn written_graph_reads_back_unchanged() {
    let snapshot = read(&text(&lines()));
    let written = snapshot.text();
    assert_same(&read(&written), &snapshot);
    assert_eq!(read(&written).text(), written);
    for (line, expected) in written.lines().zip(lines()) {
        let line: Value = serde_json::from_str(line).expect("each line is JSON");
        for (key, value) in expected.as_object().expect("an object") {
            if key != "buffers" {
                assert_eq!(&line[key], value, "{key} in {line}");
            }
        }
    }
}

#[test]
fn names_and_records_are_kept() {
    let snapshot = read(&read(&text(&lines())).text());
    let names: Vec<&str> = snapshot.tensors.iter().map(|tensor| &*tensor.name).collect();
    assert_eq!(names, ODD_NAMES);
    assert_eq!(snapshot.graph.tensor(3).in_place, InPlace::Listed(Slots::SECOND));
    assert_eq!((snapshot.tensors[1].size_in(0), snapshot.tensors[1].size_in(1)), (128, 160));
    let [first, second] = &snapshot.recorded_buffers()[..] else { panic!("there are two buffers") };
    assert_eq!((first.rules, first.effort), (Rules { views: true, ..Rules::GGML }, Effort::units(7)));
    assert_eq!((second.rules, second.effort), (Rules::ALL, Effort::default()));
}

#[test]
fn retained_tensors_are_kept() {
    let mut lines = lines();
    lines[1]["retained"] = json!(true);
    lines[2]["retained_until"] = json!(6);
    lines[3]["retained"] = json!(false);
    let snapshot = read(&text(&lines));
    let nodes = snapshot.graph.nodes();
    let second =
        nodes.iter().position(|&node| snapshot.tensors[node as usize].id == 6).and_then(|at| at.try_into().ok());
    assert_eq!(snapshot.graph.retained(), [(0, None), (1, second)]);
    let again = read(&snapshot.text());
    assert_eq!((again.graph.retained(), again.text()), (snapshot.graph.retained(), snapshot.text()));
    assert!(read(&text(&self::lines())).graph.retention().is_empty());
}

#[test]
fn tensor_may_be_listed_twice() {
    let mut lines = lines();
    lines[0]["n_leafs"] = json!(2);
    lines[0]["n_nodes"] = json!(4);
    lines[0]["leafs"] = json!([0, 0]);
    lines[0]["nodes"] = json!([3, 6, 3, 9]);
    let snapshot = read(&text(&lines));
    assert_eq!((snapshot.graph.leafs(), snapshot.graph.nodes()), (&[0, 0][..], &[1, 2, 1, 3][..]));
    assert_same(&read(&snapshot.text()), &snapshot);
    lines[0]["nodes"] = json!([3, 6, 4, 9]);
    let error = read_graph(text(&lines).as_bytes()).expect_err("a missing tensor");
    assert_eq!(error.to_string(), "line 1: a list names id 4, which is in no line");
}

#[test]
fn reordered_nodes_are_written_in_their_order() {
    let mut snapshot = read(&text(&lines()));
    snapshot.graph = snapshot.graph.in_order(&[0, 2, 1]);
    let ids = |snapshot: &Snapshot| -> Vec<u64> {
        snapshot.graph.nodes().iter().map(|&id| snapshot.tensors[id as usize].id).collect()
    };
    let written = snapshot.text().replace(r#","src":[6,6]"#, r#","src":[]"#);
    assert_eq!(ids(&read(&written)), [3, 9, 6]);
}

#[test]
fn unknown_rule_in_a_file_is_named() {
    let mut lines = lines();
    lines[0]["buffers"][0]["rules"] = json!("all,no-such-rule");
    let error = read_graph(text(&lines).as_bytes()).expect_err("an unknown rule").to_string();
    assert!(error.starts_with("line 1: buffer \"C\\\"PU\": unknown rule \"no-such-rule\"; expected "), "{error}");
}

#[test]
fn sizes_elsewhere_are_checked_too() {
    for (buffer, size, reason) in [(2, 1, "buffer 2 does not exist"), (1, u64::MAX, "the size 18446744073709551615 ")] {
        let mut lines = lines();
        lines[2]["elsewhere"] = json!([{"buffer": buffer, "size": size}]);
        let error = read_graph(text(&lines).as_bytes()).expect_err(reason);
        assert!(error.line == Some(3) && error.reason.starts_with(reason), "{error}");
    }
}

#[test]
fn rules_read_as_they_are_written() {
    let words = ["all", "ggml", "none", "none,rows", "ggml,views", "all,no-concat", "none,unread-inputs,in-place"];
    for words in words {
        let rules = |words: &str| words.parse::<lastuse::graph::RuleSetting>().expect("rules").rules(Rules::NONE);
        assert_eq!(rules(&rules(words).to_string()), rules(words), "{words}");
    }
    assert_eq!([Rules::ALL, Rules::GGML, Rules::NONE].map(|rules| rules.to_string()), ["all", "ggml", "none"]);
}

#[test]
fn graph_of_a_problem_has_the_live_ranges_of_its_blocks() {
    let mut random = Random::new(1);
    for _ in 0..200 {
        let count = 1 + random.below(12);
        let mut blocks: Vec<Block> = (0..count)
            .map(|_| {
                let first_step = random.below(8);
                Block {
                    size: 16 * u64::from(1 + random.below(9)),
                    first_step,
                    end_step: first_step + 1 + random.below(5),
                }
            })
            .collect();
        blocks.sort_by_key(|block| block.first_step);
        let mut problem = Problem::new(16, None);
        for &block in &blocks {
            problem.add(block);
        }
        let names: Vec<String> = (0..count).map(|number| format!("block {number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let snapshot = read(&graph_of_problem(&problem, "problem", &names).text());
        let plan = snapshot.plan(Rules::ALL).expect("small");
        let allocation = |name: &str| {
            let tensor = snapshot.tensors.iter().position(|tensor| tensor.name == name).expect("it is there");
            plan.problems[0].blocks()[plan.allocations[tensor].expect("it has memory").block as usize]
        };
        let overlap = |one: Block, other: Block| one.first_step < other.end_step && other.first_step < one.end_step;
        for (at, name) in names.iter().enumerate() {
            assert_eq!(allocation(name).size, blocks[at].size);
            for (other, other_name) in names.iter().enumerate() {
                assert_eq!(
                    overlap(allocation(name), allocation(other_name)),
                    overlap(blocks[at], blocks[other]),
                    "{name}, {other_name}"
                );
            }
        }
        assert_eq!(plan.buffers[0].lower_bound, lower_bound(&problem));
    }
}
