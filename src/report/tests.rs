//! Graphs from files, and plans to files.

use crate::graph::snapshot::{Malformed, Snapshot};
use crate::graph::{Corruption, Flags, GraphPlan, PlanError, Rules, TensorId, View, simulate};
use crate::placement::{Bytes, Effort, validate};
use crate::report::plan_json;
use crate::testing::Random;
use serde_json::{Value, json};

/// A header for two leafs, four nodes and two buffers.
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

/// Lines: the header, leafs 5 and 7, nodes 10 to 13, and 99, which is in no list.
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

/// A chain of leaf 1 and the nodes 2 and 3.
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
    Snapshot::read(text.as_ref())
}

fn good(lines: &[Value]) -> Snapshot {
    read(text(lines)).expect("the file is well-formed")
}

/// Expects the line, and the reason to start with some words.
fn assert_malformed(text: impl AsRef<[u8]>, line: usize, reason: &str) {
    let found = read(text).expect_err(reason);
    assert!(found.line == line && found.reason.starts_with(reason), "{found}, and expected is line {line}: {reason}");
}

/// The sample with another value; the first line of the file is 1.
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
fn file_is_read_as_it_is_written() {
    let snapshot = good(&sample());
    assert_eq!(snapshot.label, "sample");
    assert_eq!(snapshot.graph.leafs(), [0, 1]);
    assert_eq!(snapshot.graph.nodes(), [2, 3, 4, 5]);
    assert_eq!(snapshot.requested_pools(), (vec![0, 0], vec![0, 0, 0, 1]));
    assert_eq!(snapshot.graph.sources(5), [4, 6, 4]);
    assert_eq!(snapshot.graph.tensor(4).view, Some(View { root: 3, offset: 40 }));
    let is = |property: fn(&crate::graph::Tensor) -> bool| -> Vec<TensorId> {
        (0..).zip(snapshot.graph.tensors()).filter(|(_, tensor)| property(tensor)).map(|(id, _)| id).collect()
    };
    assert_eq!(is(|tensor| tensor.flags.has(Flags::INPUT)), [0]);
    assert_eq!(is(|tensor| tensor.flags.has(Flags::OUTPUT)), [5]);
    assert_eq!(is(|tensor| tensor.external), [1]);
    assert_eq!(is(|tensor| tensor.operation.is_listed()), [3]);
    assert_eq!(is(crate::graph::Tensor::is_marker), [0, 1, 6]);
    let info = &snapshot.tensors[6];
    assert_eq!((info.id, info.name.as_str(), info.nbytes, info.size, info.pool), (99, "NONE 99", 8, 8, 0));
}

#[test]
fn buffers_are_read_with_their_limits() {
    let snapshot = good(&sample());
    let [cpu, gpu] = &snapshot.buffers[..] else { panic!("there are two buffers") };
    assert_eq!((cpu.name.as_str(), cpu.alignment, cpu.max_size, cpu.ggml_alloc_size), ("CPU", 32, None, Some(4096)));
    assert_eq!((gpu.name.as_str(), gpu.alignment, gpu.max_size, gpu.ggml_alloc_size), ("GPU", 256, Some(1024), None));
    let pools: Vec<_> =
        snapshot.pools(Rules::GGML, Effort::default()).iter().map(|pool| (pool.alignment, pool.max_chunk)).collect();
    assert_eq!(pools, [(32, None), (256, Some(1024))]);
}

#[test]
fn equal_types_are_equal_and_others_are_not() {
    let mut lines = sample();
    lines[4]["type"] = json!("f16");
    let snapshot = good(&lines);
    let element = |id| snapshot.graph.layout(id).element;
    assert!(element(0) == element(2) && element(2) != element(3));
}

#[test]
fn plan_in_json_is_the_plan() {
    let snapshot = good(&sample());
    let plan = snapshot.plan(Rules::ALL).expect("sizes are small");
    assert_eq!(simulated(&snapshot, &plan), Ok(()));
    let document = document(&snapshot, &plan);
    assert_eq!(
        [&document["format"], &document["version"], &document["label"]],
        [&json!("lastuse-plan"), &json!(1), &json!("sample")]
    );
    let buffers = plan.pools.iter().zip(&snapshot.buffers).map(|(pool, buffer)| {
        json!({"name": buffer.name, "size": pool.placement.size(), "chunks": pool.placement.chunks,
            "lower_bound": pool.lower_bound, "optimal": pool.is_optimal(), "strategy": pool.strategy})
    });
    assert_eq!(document["buffers"], Value::Array(buffers.collect()));
    let owners = [(5, 0, 128), (10, 2, 128), (11, 3, 128), (13, 5, 256), (99, 6, 256)];
    let tensors = owners.map(|(id, tensor, size): (u64, usize, u64)| {
        let address = plan.address(plan.homes[tensor].expect("it has memory"));
        json!({"id": id, "buffer": address.pool, "chunk": address.chunk, "offset": address.offset, "size": size})
    });
    assert_eq!(document["tensors"], json!(tensors));
}

fn document(snapshot: &Snapshot, plan: &GraphPlan) -> Value {
    let text = plan_json(snapshot, plan, None).expect("the data is plain");
    assert!(!text.contains('\n'), "a plan is one line");
    serde_json::from_str(&text).expect("the plan is JSON")
}

#[test]
fn tensors_in_place_name_the_same_bytes() {
    let snapshot = good(&sample());
    let document = document(&snapshot, &snapshot.plan(Rules::ALL).expect("sizes are small"));
    let tensors = document["tensors"].as_array().expect("a list");
    let place = |id: u64| {
        let tensor = tensors.iter().find(|tensor| tensor["id"] == id).expect("it is in the plan");
        (&tensor["buffer"], &tensor["chunk"], &tensor["offset"])
    };
    assert_eq!(place(10), place(11));
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
fn last_line_needs_no_end() {
    assert!(read(text(&sample()).trim_end()).is_ok());
}

#[test]
fn empty_file_is_refused() {
    for empty in ["", "\n", " \n\t\n"] {
        assert_malformed(empty, 1, "the file is empty");
    }
}

#[test]
fn lines_that_are_not_json_are_refused() {
    assert_malformed("GGUF", 1, "expected value (column 1)");
    assert_malformed("[]", 1, "invalid length 0");
    assert_malformed("\u{feff}{}", 1, "expected value");
    let whole = text(&sample());
    assert_malformed(&whole[..whole.len() - 9], 8, "EOF while parsing");
    assert_malformed(whole.replacen("}\n", "} x\n", 2), 1, "trailing characters");
    assert_malformed(format!("{whole}nonsense\n"), 9, "expected ident");
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let mut bytes = text(&sample()).into_bytes();
    bytes.extend(b"\"\xff\xfe\"\n");
    assert_malformed(bytes, 9, "cannot be read: this is no text in UTF-8");
    assert_malformed([0xff], 1, "cannot be read");
}

#[test]
fn deep_nesting_is_refused() {
    let deep = "[".repeat(100_000);
    assert_malformed(&deep, 1, "");
    assert_malformed(format!("{}{{\"id\":{deep}", text(&sample())), 9, "");
    assert_malformed(format!("{}{{\"unknown\":{deep}", text(&sample())), 9, "EOF while parsing a list");
}

#[test]
fn other_formats_and_versions_are_refused() {
    let format = r#"the format is "lastuse-plan", and "lastuse-graph" is expected"#;
    assert_malformed(with(1, "format", json!("lastuse-plan")), 1, format);
    for version in [0, 2, u64::MAX] {
        assert_malformed(with(1, "version", json!(version)), 1, &format!("version {version} is unknown; known is 1"));
    }
    let other = json!({"format": "lastuse-graph", "version": 2, "everything": "else differs"});
    assert_malformed(text(&[other]), 1, "version 2 is unknown; known is 1");
}

#[test]
fn missing_keys_are_refused() {
    for key in ["format", "version", "n_leafs", "n_nodes", "buffers"] {
        assert_malformed(without(1, key), 1, &format!("missing field `{key}`"));
    }
    let keys =
        ["id", "kind", "op", "type", "ne", "nb", "nbytes", "size", "buffer", "flags", "inplace", "external", "src"];
    for key in keys {
        assert_malformed(without(4, key), 4, &format!("missing field `{key}`"));
    }
}

#[test]
fn values_of_the_wrong_type_are_refused() {
    for key in ["id", "nbytes", "size", "buffer", "flags", "ne", "nb", "src", "op", "type", "inplace", "external"] {
        assert_malformed(with(4, key, json!({"an": "object"})), 4, "invalid type: map");
    }
    for key in ["id", "nbytes", "size", "buffer", "flags", "view_of", "view_offset"] {
        assert_malformed(with(4, key, json!("7")), 4, "invalid type: string \"7\"");
        assert_malformed(with(4, key, json!(7.5)), 4, "invalid type: floating point");
    }
    assert_malformed(with(4, "kind", json!("grad")), 4, "unknown variant `grad`");
    assert_malformed(with(4, "ne", json!([1, 2, 3])), 4, "invalid length 3");
    assert_malformed(with(4, "nb", json!([1, 2, 3, 4, 5])), 4, "trailing characters");
    assert_malformed(with(1, "buffers", json!({})), 1, "invalid type: map");
}

#[test]
fn numbers_below_zero_are_refused() {
    for key in ["id", "nbytes", "size", "buffer", "flags", "view_of", "view_offset"] {
        assert_malformed(with(4, key, json!(-1)), 4, "invalid value: integer `-1`");
    }
    assert_malformed(with(4, "src", json!([7, -5])), 4, "invalid value: integer `-5`");
    assert_malformed(with(4, "nb", json!([4, 4, -4, 4])), 4, "invalid value: integer `-4`");
    assert_malformed(with(4, "ne", json!([4, -1, 1, 1])), 4, "ne has an extent below 0");
    assert_malformed(with(1, "n_nodes", json!(-4)), 1, "invalid value: integer `-4`");
}

#[test]
fn numbers_that_are_too_large_are_refused() {
    let number = "123456789";
    for beyond in ["18446744073709551616", "1e400", "340282366920938463463374607431768211456"] {
        for key in ["id", "nbytes", "size", "buffer", "flags", "view_of", "view_offset"] {
            let text = with(4, key, json!(123_456_789)).replace(number, beyond);
            let found = read(text).expect_err("the number is too large");
            assert_eq!(found.line, 4, "{key}: {found}");
        }
    }
    assert_malformed(with(4, "flags", json!(1u64 << 32)), 4, "invalid value: integer `4294967296`");
    assert_malformed(with(4, "ne", json!([1u64 << 63, 1, 1, 1])), 4, "invalid value: integer `9223372036854775808`");
}

#[test]
fn largest_numbers_are_read() {
    let mut lines = sample();
    lines[3]["ne"] = json!(vec![i64::MAX; 4]);
    lines[3]["nb"] = json!(vec![u64::MAX; 4]);
    lines[3]["nbytes"] = json!(u64::MAX);
    lines[3]["flags"] = json!(!3u32);
    lines[5]["view_offset"] = json!(u64::MAX);
    lines[7]["id"] = json!(u64::MAX);
    lines[6]["src"] = json!([u64::MAX]);
    let snapshot = good(&lines);
    let plan = snapshot.plan(Rules::ALL).expect("sizes are small");
    assert_eq!(simulated(&snapshot, &plan), Ok(()));
    assert_eq!(document(&snapshot, &plan)["tensors"][4]["id"], u64::MAX);
}

#[test]
fn keys_and_ids_that_are_there_twice_are_refused() {
    let twice = text(&sample()).replacen("\"flags\":0", "\"flags\":0,\"flags\":0", 1);
    assert_malformed(twice, 3, "duplicate field `flags`");
    assert_malformed(with(7, "id", json!(5)), 7, "id 5 is there twice");
}

#[test]
fn references_to_nothing_are_refused() {
    assert_malformed(with(4, "src", json!([7, 6])), 4, "src refers to id 6, which is in no line");
    assert_malformed(with(8, "src", json!([8])), 8, "src refers to id 8, which is in no line");
    assert_malformed(with(6, "view_of", json!(6)), 6, "view_of refers to id 6, which is in no line");
    assert_malformed(with(4, "buffer", json!(2)), 4, "buffer 2 does not exist: there are 2");
    assert_malformed(with(4, "buffer", json!(u32::MAX)), 4, "buffer 4294967295 does not exist: there are 2");
}

#[test]
fn views_of_views_are_refused() {
    let reason = "view_of refers to a view; it must name the owner of the memory";
    assert_malformed(with(7, "view_of", json!(12)), 7, reason);
    assert_malformed(with(7, "view_of", json!(13)), 7, reason);
}

#[test]
fn unusable_buffers_are_refused() {
    assert_malformed(with(1, "buffers", json!([])), 1, "there is no buffer");
    for alignment in [0, 3, 48, u64::MAX] {
        let mut lines = sample();
        lines[0]["buffers"][1]["alignment"] = json!(alignment);
        let reason = format!("buffer \"GPU\": the alignment {alignment} is no power of two");
        assert_malformed(text(&lines), 1, &reason);
    }
}

#[test]
fn counts_that_differ_from_the_header_are_refused() {
    let promised = |leafs, nodes| format!("the header promises {leafs} leafs and {nodes} nodes, but there are 2 and 4");
    assert_malformed(with(1, "n_leafs", json!(3)), 8, &promised(3, 4));
    assert_malformed(with(1, "n_nodes", json!(3)), 8, &promised(2, 3));
    let lines = sample();
    let cut = "the header promises 2 leafs and 4 nodes, but there are 2 and 2: is the file whole?";
    assert_malformed(text(&lines[..5]), 5, cut);
    assert_malformed(text(&lines[..1]), 1, "the header promises 2 leafs and 4 nodes, but there are 0 and 0");
}

#[test]
fn nodes_that_read_what_is_computed_later_are_refused() {
    let mut lines = chain();
    lines.swap(2, 3);
    assert_malformed(text(&lines), 3, "tensor 3 reads 2, which is computed later");
    let mut lines = chain();
    lines[2]["src"] = json!([3]);
    assert_malformed(text(&lines), 3, "there is a cycle: tensor 2 reads 3, which depends on 2");
}

#[test]
fn views_of_what_is_computed_later_are_refused() {
    let mut lines = chain();
    lines[2]["view_of"] = json!(3);
    lines[3]["src"] = json!([1]);
    assert_malformed(text(&lines), 3, "tensor 2 reads 3, which is computed later");
    let mut lines = chain();
    let mut view = tensor(4, "extra", "VIEW", 64, &[]);
    view["view_of"] = json!(3);
    lines[2]["src"] = json!([4]);
    lines[3]["src"] = json!([1]);
    lines.push(view);
    assert_malformed(text(&lines), 3, "tensor 2 reads 3, which is computed later");
}

#[test]
fn nodes_that_read_views_of_themselves_are_refused() {
    let mut lines = chain();
    let mut view = tensor(4, "extra", "VIEW", 64, &[]);
    view["view_of"] = json!(2);
    lines[2]["src"] = json!([1, 4]);
    lines.push(view);
    assert_malformed(text(&lines), 3, "there is a cycle: tensor 2 reads 2");
}

#[test]
fn markers_may_name_what_is_computed_later_and_nodes_themselves() {
    let mut lines = chain();
    lines[2]["op"] = json!("NONE");
    lines[2]["src"] = json!([3]);
    lines[3]["src"] = json!([1, 3]);
    let snapshot = good(&lines);
    let plan = snapshot.plan(Rules::ALL).expect("sizes are small");
    assert_eq!(simulated(&snapshot, &plan), Ok(()));
}

#[test]
fn size_that_overflows_when_padded_is_refused() {
    for size in [u64::MAX, u64::MAX - 31, 1 << 63, (1 << 63) - 31] {
        let reason = format!("the size {size} overflows when padded to 32");
        assert_malformed(with(4, "size", json!(size)), 4, &reason);
    }
    assert!(read(with(4, "size", json!((1u64 << 63) - 32))).is_ok());
    let mut lines = sample();
    lines[0]["buffers"][0]["alignment"] = json!(1u64 << 63);
    assert_malformed(text(&lines), 2, "the size 100 overflows when padded to 9223372036854775808");
}

#[test]
fn sizes_that_overflow_together_have_no_plan() {
    let mut lines = sample();
    for line in [1, 3] {
        lines[line]["size"] = json!(1u64 << 62);
    }
    let plan = good(&lines).plan(Rules::ALL);
    assert!(matches!(plan, Err(PlanError::TooLarge { pool: 0, .. })));
}

#[test]
fn defects_are_told_with_their_line() {
    let malformed = Malformed { line: 7, reason: "it is wrong".to_owned() };
    assert_eq!(malformed.to_string(), "line 7: it is wrong");
}

/// Other values for numbers, of which some are ids and some are at the edge of a type.
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

/// Is a tensor viewed that is in no list and has no memory yet? Nobody says when such a root gets its value.
fn views_the_unknown(snapshot: &Snapshot) -> bool {
    let graph = &snapshot.graph;
    let listed = |id| graph.leafs().contains(&id) || graph.nodes().contains(&id);
    let mut roots = graph.tensors().iter().filter_map(|tensor| tensor.view).map(|view| view.root);
    roots.any(|root| !listed(root) && !graph.tensor(root).external)
}

#[test]
fn mangled_files_are_refused_or_planned_right() {
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
            Ok(snapshot) if views_the_unknown(&snapshot) => {}
            Ok(snapshot) => planned += u32::from(is_planned_right(&snapshot, &lines)),
        }
    }
    assert!(planned > 500 && refused > 500, "{planned} planned, {refused} refused");
}

/// Whether there is a plan; if so, one that every check accepts.
fn is_planned_right(snapshot: &Snapshot, lines: &[Value]) -> bool {
    let Ok(plan) = snapshot.plan(Rules::ALL) else { return false };
    for (problem, pool) in plan.problems.iter().zip(&plan.pools) {
        assert_eq!(validate(problem, &pool.placement), Ok(()), "{}", text(lines));
    }
    assert_eq!(simulated(snapshot, &plan), Ok(()), "{}", text(lines));
    document(snapshot, &plan);
    true
}
