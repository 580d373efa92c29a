//! The output and exit codes of `lastuse check`: valid plans, each kind of defect by name, malformed files.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::support;
use lastuse_vendor::target_folder;
use serde_json::{Value, json};

fn tool() -> Command {
    support::tool::command(&[])
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the tool prints UTF-8")
}

/// A separate folder for each test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = target_folder().join("c-tests/check-tool").join(test);
        fs::create_dir_all(&path).expect("the target folder can be written to");
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).expect("the target folder can be written to");
        path.to_str().expect("the target folder has a name in UTF-8").to_owned()
    }

    /// Checks a plan, as text, against the graph below.
    fn check(&self, plan: &str, options: &[&str]) -> Output {
        let (graph, plan) = (self.write("graph.jsonl", &graph()), self.write("plan.json", plan));
        tool().arg("check").args(options).args([graph, plan]).output().expect("the tool starts")
    }
}

fn tensor(id: u64, kind: &str, op: &str, size: u64, src: &[u64]) -> Value {
    json!({"id": id, "kind": kind, "op": op, "desc": op, "name": format!("t{id}"), "type": "f32",
        "ne": [size / 4, 1, 1, 1], "nb": [4, size, size, size], "nbytes": size, "size": size, "buffer": 0, "flags": 0,
        "inplace": false, "external": false, "src": src})
}

/// Leafs 1 and 2 (a weight), nodes 3 to 5, and 6, a view of 3, which 5 reads as it does 1.
fn graph() -> String {
    let mut lines = [
        json!({"format": "lastuse-graph", "version": 1, "n_leafs": 2, "n_nodes": 4,
            "buffers": [{"name": "CPU", "alignment": 32, "max_size": null}]}),
        tensor(1, "leaf", "NONE", 64, &[]),
        tensor(2, "leaf", "NONE", 64, &[]),
        tensor(3, "node", "SQR", 60, &[1]),
        tensor(4, "node", "MUL_MAT", 64, &[3, 2]),
        tensor(6, "node", "VIEW", 32, &[3]),
        tensor(5, "node", "CUSTOM", 128, &[4, 6, 1]),
    ];
    lines[1]["flags"] = json!(1);
    lines[2]["external"] = json!(true);
    lines[5]["view_of"] = json!(3);
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A right plan: 1 at 0, 3 at 64, 4 at 128, 5 at 192.
fn plan() -> Value {
    let tensor =
        |id: u64, offset: u64, size: u64| json!({"id": id, "buffer": 0, "chunk": 0, "offset": offset, "size": size});
    json!({"format": "lastuse-plan", "version": 1,
        "buffers": [{"name": "CPU", "size": 320, "chunks": [320], "lower_bound": 256, "optimal": false}],
        "tensors": [tensor(1, 0, 64), tensor(3, 64, 64), tensor(4, 128, 64), tensor(5, 192, 128)]})
}

/// The plan with one change.
fn changed(change: impl Fn(&mut Value)) -> String {
    let mut plan = plan();
    change(&mut plan);
    plan.to_string()
}

/// A node that is computed in place lies in the buffer of its source, whatever the graph asks for.
#[test]
fn node_in_place_may_lie_in_the_buffer_of_its_source() {
    let folder = Folder::new("in-place");
    let other = json!({"name": "GPU", "alignment": 32, "max_size": null});
    let with_two_buffers = |text: &str| {
        let mut document: Value = serde_json::from_str(text).expect("each line is JSON");
        document["buffers"].as_array_mut().expect("there are buffers").push(other.clone());
        document
    };
    let graph = graph();
    let (header, rest) = graph.split_once('\n').expect("there are lines");
    let node = tensor(7, "node", "SQR", 128, &[5]).to_string().replace("\"buffer\":0", "\"buffer\":1");
    let mut header = with_two_buffers(header);
    header["n_nodes"] = json!(5);
    let graph = folder.write(
        "graph.jsonl",
        &format!("{header}\n{}\n", rest.to_owned() + &node.replace("\"inplace\":false", "\"inplace\":true")),
    );
    for (source, right) in [(192, true), (0, false)] {
        let mut plan = plan();
        let chunkless = json!({"name": "GPU", "size": 0, "chunks": [], "lower_bound": 0});
        plan["buffers"].as_array_mut().expect("there are buffers").push(chunkless);
        let entry = json!({"id": 7, "buffer": 0, "chunk": 0, "offset": source, "size": 128});
        plan["tensors"].as_array_mut().expect("there are tensors").push(entry);
        let plan = folder.write("plan.json", &plan.to_string());
        let output = tool().arg("check").args([&graph, &plan]).output().expect("the tool starts");
        let told = text(&output.stdout);
        assert_eq!(output.status.success(), right, "{told}");
        assert!(right || told.contains("lies in buffer 0, and the graph requests it in 1"), "{told}");
    }
}

#[test]
fn valid_plan_is_accepted() {
    let folder = Folder::new("right");
    let output = folder.check(&plan().to_string(), &[]);
    let expected = "OK: 4 tensors are placed, and no live value is overwritten in 4 steps\nCPU: 320 bytes, lower bound 256, chunks: [320]\n";
    assert_eq!((output.status.code(), text(&output.stdout), text(&output.stderr)), (Some(0), expected, ""));
    let pretty = serde_json::to_string_pretty(&plan()).expect("it is JSON");
    assert_eq!(folder.check(&pretty, &[]).status.code(), Some(0), "in several lines");
    let json: Value =
        serde_json::from_slice(&folder.check(&plan().to_string(), &["--json"]).stdout).expect("it is JSON");
    assert_eq!((&json["format"], &json["ok"], &json["defects"]), (&json!("lastuse-check"), &json!(true), &json!([])));
}

#[test]
fn plans_of_the_tool_are_valid_for_captured_graphs() {
    let folder = Folder::new("real");
    for name in ["llama-8-softmax", "sd-vae-decoder-512", "branches-random-wiring"] {
        for options in [&["plan", "--json"][..], &["plan", "--json", "--reorder", "--rules", "ggml"]] {
            let graph = lastuse_c_tests::folder().join("graphs").join(format!("{name}.jsonl.gz"));
            let planned = tool().args(options).arg(&graph).output().expect("the tool starts");
            let plan = folder.write("plan.json", text(&planned.stdout));
            let output = tool().arg("check").arg(&graph).arg(plan).output().expect("the tool starts");
            assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{name}: {}", text(&output.stdout));
        }
    }
}

/// Expects exit code 3, a single defect of this kind, and the words in its line.
fn assert_defect(test: &str, plan: &str, kind: &str, words: &[&str]) {
    let output = Folder::new(test).check(plan, &[]);
    let printed = text(&output.stdout);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(3), ""), "{printed}");
    let line = printed.lines().next().unwrap_or_default();
    assert!(line.starts_with(&format!("{kind}: ")), "{printed}");
    assert!(words.iter().all(|word| line.contains(word)), "{words:?} in: {printed}");
    assert!(printed.ends_with("The plan is invalid: 1 defect\n"), "{printed}");
}

#[test]
fn too_few_bytes() {
    let plan = changed(|plan| plan["tensors"][1]["size"] = json!(60));
    assert_defect("size", &plan, "size", &["tensor 3 \"t3\" (SQR)", "has 60 bytes, and needs 64"]);
}

#[test]
fn offset_that_is_not_aligned() {
    let plan = changed(|plan| {
        plan["tensors"][3]["offset"] = json!(200);
        (plan["buffers"][0]["size"], plan["buffers"][0]["chunks"]) = (json!(352), json!([352]));
    });
    assert_defect("alignment", &plan, "alignment", &["tensor 5 \"t5\"", "offset 200", "not a multiple of 32"]);
}

#[test]
fn tensor_outside_of_its_chunk() {
    let plan = changed(|plan| plan["tensors"][3]["offset"] = json!(224));
    assert_defect("outside", &plan, "outside", &["tensor 5", "lies at 224 to 352 of chunk 0", "320 bytes"]);
    let plan = changed(|plan| plan["tensors"][3]["offset"] = json!(u64::MAX - 31));
    assert_defect("outside", &plan, "outside", &["tensor 5", "2^64 or beyond"]);
    let plan = changed(|plan| plan["tensors"][3]["chunk"] = json!(7));
    assert_defect("outside", &plan, "outside", &["tensor 5", "chunk 7 of buffer 0, which is not there"]);
    let plan = changed(|plan| plan["tensors"][3]["buffer"] = json!(2));
    assert_defect("outside", &plan, "outside", &["tensor 5", "buffer 2, which is not there"]);
}

#[test]
fn value_that_is_overwritten() {
    let plan = changed(|plan| plan["tensors"][2]["offset"] = json!(64));
    assert_defect(
        "corruption",
        &plan,
        "corruption",
        &["step 1, tensor 4", "overwrites tensor 3 \"t3\" (SQR)", "bytes 64 to"],
    );
    let plan = changed(|plan| plan["tensors"][2]["offset"] = json!(0));
    let words =
        ["step 3, tensor 5", "needs tensor 1 \"t1\" (NONE)", "tensor 4 \"t4\" (MUL_MAT), which step 1 computes"];
    assert_defect("corruption", &plan, "corruption", &words);
}

#[test]
fn tensor_that_has_no_memory() {
    let plan = changed(|plan| drop(plan["tensors"].as_array_mut().expect("a list").remove(2)));
    assert_defect("missing", &plan, "corruption", &["tensor 4 \"t4\" (MUL_MAT)", "has no memory"]);
}

#[test]
fn entries_that_must_not_be_there() {
    let add = |id: u64| {
        changed(move |plan| {
            let entry = json!({"id": id, "buffer": 0, "chunk": 0, "offset": 0, "size": 64});
            plan["tensors"].as_array_mut().expect("a list").push(entry);
        })
    };
    assert_defect("unknown", &add(99), "entry", &["tensor 99, which is not in the graph"]);
    assert_defect("twice", &add(4), "entry", &["tensor 4 \"t4\"", "twice"]);
    assert_defect("external", &add(2), "entry", &["tensor 2 \"t2\"", "has its own already"]);
    assert_defect("view", &add(6), "entry", &["tensor 6 \"t6\"", "is a view"]);
}

#[test]
fn buffers_that_contradict_themselves() {
    let with = |key: &str, value: Value| changed(|plan| plan["buffers"][0][key] = value.clone());
    assert_defect("name", &with("name", json!("GPU")), "buffer", &["buffer 0", "\"CPU\"", "\"GPU\""]);
    assert_defect("sum", &with("size", json!(300)), "buffer", &["size is 300", "320 bytes"]);
    assert_defect("bound", &with("lower_bound", json!(321)), "buffer", &["lower bound is 321"]);
    let plan = changed(|plan| {
        let buffer = plan["buffers"][0].clone();
        plan["buffers"].as_array_mut().expect("a list").push(buffer);
    });
    assert_defect("count", &plan, "buffer", &["the graph has 1 buffers, and the plan has 2"]);
}

#[test]
fn order_that_cannot_be_run() {
    let with = |order: Value| changed(|plan| plan["order"] = order.clone());
    assert_eq!(Folder::new("order").check(&with(json!([3, 6, 4, 5])), &[]).status.code(), Some(0));
    assert_defect("order", &with(json!([3, 4, 5, 6])), "order", &["before one that it reads"]);
    assert_defect("order", &with(json!([3, 4, 6])), "order", &["leaves out node 5"]);
    assert_defect("order", &with(json!([3, 4, 4, 5])), "order", &["names 4"]);
    assert_defect("order", &with(json!([1, 4, 6, 5])), "order", &["names 1, which is not a node"]);
}

#[test]
fn every_defect_is_reported() {
    let plan = changed(|plan| {
        plan["tensors"][1]["size"] = json!(32);
        plan["tensors"][0]["offset"] = json!(8);
        plan["tensors"][3]["offset"] = json!(320);
        plan["tensors"][2]["offset"] = json!(64);
    });
    let output = Folder::new("all").check(&plan, &["--json"]);
    assert_eq!(output.status.code(), Some(3));
    let json: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let kinds: Vec<&str> =
        json["defects"].as_array().expect("a list").iter().filter_map(|it| it["kind"].as_str()).collect();
    for kind in ["size", "alignment", "outside", "corruption"] {
        assert!(kinds.contains(&kind), "{json}");
    }
    assert_eq!((&json["ok"], &json["defects"][0]["tensors"]), (&json!(false), &json!([1])));
}

/// Expects exit code 1, and the words in the message, which names the file.
fn assert_malformed(plan: &str, words: &[&str]) {
    let output = Folder::new("malformed").check(plan, &[]);
    let printed = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""), "{printed}");
    assert!(printed.starts_with("lastuse: error: ") && printed.contains("plan.json: "), "{printed}");
    assert!(words.iter().all(|word| printed.contains(word)), "{words:?} in: {printed}");
}

#[test]
fn malformed_plans_are_refused_with_the_place() {
    let whole = plan().to_string();
    assert_malformed("", &["line 1: the file is empty"]);
    assert_malformed(&whole[..whole.len() / 2], &["line 1: ", "is the file whole?"]);
    assert_malformed("[]", &["not a lastuse plan file"]);
    assert_malformed("{\n  \"format\": x\n}", &["line 2: "]);
    assert_malformed(&format!("{whole}\n{whole}"), &["a single plan is expected"]);
    assert_malformed(&format!("{whole} and more"), &["behind the plan: line 1"]);
    assert_malformed(&graph(), &["the format is \"lastuse-graph\", and \"lastuse-plan\" is expected"]);
    assert_malformed("{\"format\":\"lastuse-plan\",\"version\":2}", &["version 2 is unknown; known is 1"]);
    assert_malformed("{\"format\":\"lastuse-plan\",\"version\":1}", &["buffers is missing"]);
    let with = |key: &str, value: Value| changed(|plan| plan["tensors"][2][key] = value.clone());
    assert_malformed(&with("offset", json!(-1)), &["tensor 4: offset is -1", "a whole number below 2^64"]);
    assert_malformed(&with("offset", json!(1e30)), &["tensor 4: offset is 1e"]);
    assert_malformed(&with("offset", json!("0")), &["tensor 4: offset is \"0\""]);
    assert_malformed(&with("chunk", json!(1u64 << 40)), &["tensor 4: chunk is 1099511627776, more than there can be"]);
    assert_malformed(&with("id", Value::Null), &["tensor at position 2: id is null"]);
    let without = changed(|plan| drop(plan["tensors"][2].as_object_mut().expect("an object").remove("size")));
    assert_malformed(&without, &["tensor 4: size is missing"]);
    assert_malformed(
        &changed(|plan| plan["buffers"][0]["chunks"] = json!(7)),
        &["buffer at position 0: chunks must be a list"],
    );
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let output = tool().args(["check", "nowhere.jsonl", "plan.json"]).output().expect("the tool starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("lastuse: error: nowhere.jsonl: "), "{}", text(&output.stderr));
    let folder = Folder::new("cut");
    let cut = folder.write("graph.jsonl", &graph()[..400]);
    let output = tool().arg("check").args([cut, folder.write("plan.json", "{}")]).output().expect("the tool starts");
    assert!(text(&output.stderr).contains("graph.jsonl: line "), "{}", text(&output.stderr));
    assert_eq!(tool().args(["check", "one"]).output().expect("the tool starts").status.code(), Some(2), "wrong usage");
}
