//! `lastuse plan`: tables, JSON, messages, exit codes.

mod csv;
mod effort;
mod recompute;
mod tiling;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use crate::support;
use crate::support::tool::{self, assert_fails, assert_fails_with, finish, stderr, stdout};
use lastuse_vendor::target_folder;
use serde_json::{Value, json};

/// Returns `lastuse plan` with arguments.
fn plan(arguments: &[&str]) -> Command {
    tool::command(&[&["plan"], arguments].concat())
}

fn run(arguments: &[&str]) -> Output {
    plan(arguments).output().expect("the tool starts")
}

/// Exit code 0, no messages, and the output.
fn planned(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{arguments:?}");
    stdout(&output).to_owned()
}

/// A separate folder for each test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = target_folder().join("c-tests/plan-tool").join(test);
        fs::create_dir_all(&path).expect("the target folder can be written to");
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("the target folder has a name in UTF-8").to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.0.join(name), text).expect("the target folder can be written to");
        self.path(name)
    }

    fn write_compressed(&self, name: &str, text: &str) -> String {
        support::expect(lastuse_c_tests::write_compressed(&self.0.join(name), text));
        self.path(name)
    }
}

fn header(buffers: &Value, nodes: usize) -> Value {
    json!({"format": "lastuse-graph", "version": 1, "label": "a chain", "n_leafs": 1, "n_nodes": nodes,
        "buffers": buffers})
}

fn tensor(id: usize, size: u64, src: &[usize]) -> Value {
    let (kind, op) = if src.is_empty() { ("leaf", "NONE") } else { ("node", "SQR") };
    json!({"id": id, "kind": kind, "op": op, "type": "f32", "ne": [size, 1, 1, 1], "nb": [1, size, size, size],
        "nbytes": size, "size": size, "buffer": 0, "flags": 0, "inplace": false, "external": false, "src": src})
}

fn text(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A leaf and three nodes in a row; two of the four tensors of 100 bytes, padded to 128, are live at once.
fn chain() -> Vec<Value> {
    let buffers = json!([{"name": "CPU", "alignment": 32, "max_size": null, "ggml_alloc_size": 512}]);
    let tensors = [tensor(0, 100, &[]), tensor(1, 100, &[0]), tensor(2, 100, &[1]), tensor(3, 100, &[2])];
    std::iter::once(header(&buffers, 3)).chain(tensors).collect()
}

/// Returns a chain whose third node may be computed in place, and uses the first only through the second, a view of it.
fn chain_through_a_view() -> String {
    let mut lines = chain();
    lines[3]["view_of"] = json!(1);
    lines[4]["inplace"] = json!(true);
    text(&lines)
}

/// The words of a line of the table without the time, which is the last.
fn words(table: &str, line: usize) -> Vec<&str> {
    let mut words: Vec<&str> = table.lines().nth(line).expect("the table has the line").split_whitespace().collect();
    let time = words.pop().and_then(|word| word.parse::<f64>().ok());
    assert!(line == 0 || time.is_some_and(|time| time >= 0.0), "{table}");
    words
}

#[test]
fn help_has_examples_and_exit_codes() {
    let help = planned(&["--help"]);
    for part in [
        "Examples:\n  lastuse plan llama.jsonl",
        "Exit codes: 0 all planned, 1 ",
        "--json",
        "--rules",
        "--reorder",
        "--effort",
    ] {
        assert!(help.contains(part), "{part} is not in\n{help}");
    }
}

#[test]
fn table_has_the_numbers_of_the_graph() {
    let file = Folder::new("table").write("chain.jsonl", &text(&chain()));
    let table = planned(&[&file]);
    assert_eq!(words(&table, 0), ["file", "nodes", "blocks", "ggml-alloc", "lastuse", "lower", "bound", "ratio"]);
    assert_eq!(words(&table, 1), ["chain.jsonl", "3", "4", "512", "256", "256", "0.500"]);
    assert_eq!(table.lines().count(), 2);
}

#[test]
fn compressed_file_is_planned_like_its_text() {
    let folder = Folder::new("compressed");
    let table = planned(&[&folder.write_compressed("chain.jsonl.gz", &text(&chain()))]);
    assert_eq!(words(&table, 1), ["chain.jsonl.gz", "3", "4", "512", "256", "256", "0.500"]);
}

#[test]
fn file_that_only_seems_to_be_compressed_is_refused() {
    let file = Folder::new("seems-compressed").write("chain.jsonl.gz", &text(&chain()));
    let message = format!("{file}: the name ends in .gz, but the file is not compressed by gzip");
    assert_fails(&run(&[&file]), &message);
}

#[test]
fn compressed_file_that_was_cut_off_is_refused() {
    let file = Folder::new("compressed-cut").write_compressed("chain.jsonl.gz", &text(&chain()));
    let whole = fs::read(&file).expect("it was written");
    fs::write(&file, &whole[..whole.len() / 2]).expect("the target folder can be written to");
    let output = run(&[&file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).ends_with("the compressed data ends too early: is the file whole?\n"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn table_of_several_graphs_has_a_summary() {
    let folder = Folder::new("summary");
    let first = folder.write("first.jsonl", &text(&chain()));
    let second = folder.write("second.jsonl", &text(&chain()).replace(":512", ":1024"));
    let table = planned(&[&first, &second]);
    assert_eq!(words(&table, 2)[..2], ["second.jsonl", "3"]);
    let summary = "2 graphs, 2 at the lower bound; lastuse / ggml-alloc: geometric mean 0.3536, largest 0.5000";
    assert_eq!(table.lines().last(), Some(summary));
}

#[test]
fn what_ggml_needed_may_be_unknown() {
    let file = Folder::new("unknown").write("chain.jsonl", &text(&chain()).replace("\"ggml_alloc_size\":512,", ""));
    assert_eq!(words(&planned(&[&file]), 1), ["chain.jsonl", "3", "4", "unknown", "256", "256"]);
}

#[test]
fn sums_beyond_any_memory_do_not_wrap() {
    let buffer = json!({"name": "huge", "alignment": 32, "ggml_alloc_size": 1u64 << 63});
    let mut lines = vec![header(&json!([buffer, buffer, buffer]), 2)];
    lines.extend([tensor(0, (1 << 63) - 32, &[]), tensor(1, (1 << 63) - 32, &[0]), tensor(2, (1 << 63) - 32, &[1])]);
    for buffer in 1..3 {
        lines[buffer + 1]["buffer"] = json!(buffer);
    }
    let file = Folder::new("sums").write("huge.jsonl", &text(&lines));
    let most = u64::MAX.to_string();
    assert_eq!(words(&planned(&[&file]), 1), ["huge.jsonl", "2", "3", "unknown", &most, &most]);
}

#[test]
fn rules_of_ggml_take_more_blocks_where_ggml_does_not_reuse() {
    let file = Folder::new("live_ranges").write("view.jsonl", &chain_through_a_view());
    let blocks = |live_ranges: &[&str]| words(&planned(&[&[file.as_str()], live_ranges].concat()), 1)[2].to_owned();
    assert_eq!(blocks(&[]), blocks(&["--rules", "all"]));
    assert_eq!((blocks(&[]), blocks(&["--rules", "ggml"])), ("2".to_owned(), "3".to_owned()));
}

#[test]
fn each_rule_can_be_switched_by_name() {
    let file = Folder::new("rules").write("view.jsonl", &chain_through_a_view());
    let blocks = |rules: &str| words(&planned(&["--rules", rules, &file]), 1)[2].to_owned();
    for with in ["default", "ggml,views", "none,in-place,views", "all,no-concat,no-rows", "no-views,views", "ggml,all"]
    {
        assert_eq!(blocks(with), "2", "{with}");
    }
    for without in
        ["all,no-views", "no-views", "ggml,rows,copies,concat", "views,ggml", "ggml,views,no-views", "none,views"]
    {
        assert_eq!(blocks(without), "3", "{without}");
    }
}

#[test]
fn unknown_rule_is_named_beside_those_that_are_known() {
    let file = Folder::new("unknown-rule").write("chain.jsonl", &text(&chain()));
    for rules in ["colums", "all,colums", "no-colums"] {
        let output = run(&["--rules", rules, &file]);
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""), "{rules}");
        for part in ["colums\"", "default", "none", "in-place", "copies", "oldest-source", "unread-inputs"] {
            assert!(stderr(&output).contains(part), "{part} is not in\n{}", stderr(&output));
        }
    }
}

#[test]
fn json_says_where_every_tensor_goes() {
    let file = Folder::new("json").write("chain.jsonl", &text(&chain()));
    let printed = planned(&["--json", &file, &file]);
    let plans: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(plans.len(), 2);
    assert_eq!(plans[0], plans[1], "the same graph gives the same plan");
    let Value::Object(plan) = &plans[0] else { panic!("{printed}") };
    assert_eq!((&plan["format"], &plan["version"]), (&json!("lastuse-plan"), &json!(1)));
    let buffer = &plan["buffers"][0];
    assert_eq!([&buffer["name"], &buffer["size"], &buffer["lower_bound"]], [&json!("CPU"), &json!(256), &json!(256)]);
    assert_eq!((&buffer["chunks"], &buffer["optimal"]), (&json!([256]), &json!(true)));
    let tensors = plan["tensors"].as_array().expect("a list");
    for (id, tensor) in tensors.iter().enumerate() {
        assert_eq!((&tensor["id"], &tensor["buffer"], &tensor["chunk"]), (&json!(id), &json!(0), &json!(0)));
        assert_eq!((&tensor["size"], &tensor["offset"]), (&json!(128), &tensors[id % 2]["offset"]));
    }
    assert_eq!(tensors.len(), 4);
}

/// A leaf, two nodes that make much of it, one for each that makes little of that, and a last one of both.
fn branches() -> Vec<Value> {
    let buffers = json!([{"name": "CPU", "alignment": 32, "max_size": null, "ggml_alloc_size": 4096}]);
    let sizes_and_sources =
        [(32, vec![]), (1024, vec![0]), (1024, vec![0]), (32, vec![1]), (32, vec![2]), (32, vec![3, 4])];
    let tensors = (0..).zip(sizes_and_sources).map(|(id, (size, sources))| tensor(id, size, &sources));
    std::iter::once(header(&buffers, 5)).chain(tensors).collect()
}

#[test]
fn reordered_graph_is_shown_with_both_bounds() {
    let folder = Folder::new("reorder");
    let branches = folder.write("branches.jsonl", &text(&branches()));
    let chain = folder.write("chain.jsonl", &text(&chain()));
    let given = words(&planned(&[&branches]), 1).join(" ");
    assert_eq!(given, "branches.jsonl 5 6 4096 2080 2080 0.508");
    let table = planned(&["--reorder", &branches, &chain]);
    assert_eq!(words(&table, 0)[4..], ["lastuse", "given", "bound", "lower", "bound", "ratio"]);
    assert_eq!(words(&table, 1), ["branches.jsonl", "5", "6", "4096", "1088", "2080", "1088", "0.266"]);
    assert_eq!(words(&table, 2), ["chain.jsonl", "3", "4", "512", "256", "256", "256", "0.500"]);
    let summary = table.lines().last().unwrap_or_default();
    assert!(summary.starts_with("2 graphs, 2 at the lower bound; 1 in a better order; "), "{summary}");
}

#[test]
fn json_of_a_reordered_graph_has_the_order() {
    let file = Folder::new("reorder-json").write("branches.jsonl", &text(&branches()));
    let plan = |arguments: &[&str]| -> Value { serde_json::from_str(&planned(arguments)).expect("JSON") };
    let given = plan(&["--json", &file]);
    assert_eq!((given.get("order"), given["buffers"][0].get("given_order_lower_bound")), (None, None));
    let reordered = plan(&["--json", "--reorder", &file]);
    assert_eq!(reordered["order"], json!([1, 3, 2, 4, 5]));
    let buffer = &reordered["buffers"][0];
    assert_eq!([&buffer["given_order_lower_bound"], &buffer["lower_bound"]], [&json!(2080), &json!(1088)]);
    assert_eq!(reordered["tensors"].as_array().map(Vec::len), Some(6));
}

#[test]
fn effort_limits_the_search_for_an_order() {
    let file = Folder::new("effort").write("branches.jsonl", &text(&branches()));
    let bound = |effort: &str| words(&planned(&["--reorder", "--reorder-effort", effort, &file]), 1)[6].to_owned();
    assert_eq!((bound("0"), bound("1000")), ("2080".to_owned(), "1088".to_owned()));
    assert_eq!(run(&["--reorder-effort", "1000", &file]).status.code(), Some(2));
}

#[test]
fn malformed_file_is_named_with_its_line() {
    let folder = Folder::new("malformed");
    let mut lines = chain();
    lines[3]["src"] = json!([7]);
    let file = folder.write("broken.jsonl", &text(&lines));
    for arguments in [&["--json", file.as_str()][..], &[&file]] {
        let output = run(arguments);
        assert_fails(&output, &format!("{file}: line 4: src refers to id 7, which is in no line"));
        assert_eq!(stdout(&output), "");
    }
    let file = folder.write("empty.jsonl", "");
    assert_fails(&run(&[&file]), &format!("{file}: line 1: the file is empty"));
}

#[test]
fn graph_that_is_too_large_is_named() {
    let mut lines = chain();
    for line in &mut lines[1..] {
        line["size"] = json!(1u64 << 62);
    }
    let file = Folder::new("too-large").write("large.jsonl", &text(&lines));
    let total = "18446744073709551615 bytes, more than can be addressed";
    let message = format!("{file}: the tensors of buffer 0 add up to {total}");
    assert_fails(&run(&[&file]), &message);
}

#[test]
fn missing_file_is_named() {
    let file = Folder::new("missing").path("nowhere.jsonl");
    assert_fails(&run(&[&file]), &format!("{file}: no such file"));
}

#[test]
fn folder_without_graphs_is_refused() {
    let folder = Folder::new("folder").path("");
    let message = "the folder has no graph, which is a file named *.jsonl or *.jsonl.gz; \"lastuse run --capture DIR \
                   PROGRAM\" writes those of a program";
    assert_fails(&run(&[&folder]), &format!("{folder}: {message}"));
}

#[test]
fn wrong_file_does_not_keep_the_others_from_being_planned() {
    let folder = Folder::new("among");
    let good = folder.write("good.jsonl", &text(&chain()));
    let cut = folder.write("cut.jsonl", &text(&chain()[..3]));
    let missing = folder.path("nowhere.jsonl");
    let output = run(&[&good, &cut, &missing, &good]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!([1, 2].map(|line| words(stdout(&output), line)[4].to_owned()), ["256", "256"]);
    let messages: Vec<&str> = stderr(&output).lines().collect();
    let [first, second] = messages[..] else { panic!("{messages:?}") };
    assert!(first.starts_with(&format!("lastuse: error: {cut}: line 3: the header promises")), "{first}");
    assert!(second.starts_with(&format!("lastuse: error: {missing}: ")), "{second}");
    let json = run(&["--json", &cut, &good]);
    assert_eq!((json.status.code(), stdout(&json).lines().count()), (Some(1), 1));
}

/// The tool waiting for a graph on its standard input.
fn waiting(arguments: &[&str]) -> Child {
    tool::spawn(plan(arguments))
}

#[test]
fn minus_is_the_standard_input() {
    let output = finish(waiting(&["-"]), &text(&chain()));
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    assert_eq!(words(stdout(&output), 1)[..5], ["-", "3", "4", "512", "256"]);
    assert_fails(
        &finish(waiting(&["-"]), "\nnonsense"),
        "-: line 2: this is not a lastuse graph file: \"lastuse run --capture DIR PROGRAM\" writes those of a program",
    );
}

#[test]
fn wrong_usage_has_its_own_exit_code() {
    for arguments in [&[][..], &["--json"], &["--chart", "file"], &["--rules", "mine", "file"]] {
        let output = run(arguments);
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""), "{arguments:?}");
        assert!(stderr(&output).contains("Usage: lastuse plan") || stderr(&output).contains("--help"), "{arguments:?}");
    }
}

#[test]
fn closed_output_is_no_failure() {
    for arguments in [&["-"][..], &["--json", "-"]] {
        let mut child = waiting(arguments);
        drop(child.stdout.take());
        let output = finish(child, &text(&chain()));
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn closed_standard_error_is_no_panic() {
    let mut child = waiting(&["-"]);
    drop(child.stderr.take());
    assert_eq!(finish(child, "nonsense").status.code(), Some(1));
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let full = Path::new("/dev/full");
    let file = Folder::new("full").write("chain.jsonl", &text(&chain()));
    let device = fs::OpenOptions::new().write(true).open(full).expect("the device can be opened");
    let output = plan(&[&file]).stdout(device).output().expect("the tool starts");
    assert_fails(&output, "cannot print: No space left on device (os error 28)");
}

#[test]
fn steps_are_planned_as_one_graph() {
    let folder = Folder::new("steps");
    let chain = folder.write("chain.jsonl", &text(&chain()));
    let table = planned(&["--steps", "2", &chain]);
    let nodes: usize = words(&planned(&[&chain]), 1)[1].parse().expect("a number");
    assert!(table.starts_with(&format!("chain.jsonl: {nodes} nodes, steps: 2, bytes: ")), "{table}");
    let numbers = |line: usize| -> Vec<u64> {
        let words = table.lines().nth(line).expect("a line for the step").split_whitespace();
        words.take(4).map(|word| word.parse().expect("a number")).collect()
    };
    let [first, second] = [numbers(2), numbers(3)];
    assert_eq!((first[0], second[0], second[3]), (0, 1, 0), "{table}");
    assert_eq!(first[1] + second[1], nodes as u64);
    assert!(first[3] > 0 && first[3] <= first[2].min(second[2]), "what crosses is live in both: {table}");
}

#[test]
fn numbers_of_steps_are_checked() {
    let chain = Folder::new("few-nodes").write("chain.jsonl", &text(&chain()));
    for (steps, code, why) in
        [("0", 2, "not a whole number from 1"), ("4", 1, "3 nodes, which are fewer than the 4 steps")]
    {
        let output = run(&["--steps", steps, &chain]);
        assert_eq!(output.status.code(), Some(code));
        assert!(String::from_utf8_lossy(&output.stderr).contains(why), "{output:?}");
    }
    assert_eq!(run(&["--steps", "2", "--json", &chain]).status.code(), Some(2));
}
