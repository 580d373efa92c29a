//! How much work the search for a smaller plan of a graph may do.

use serde_json::{Value, json};

use super::{Folder, chain, planned, run, stdout, tensor, text};

/// Enough to find the least for the graph here, and to prove it.
const AMPLE: &str = "20000000";

/// The tensors of a graph, each made by a node, in multiples of the alignment. At most 256 times the alignment is live
/// at once, yet no plan takes less than 257: found among random graphs, and proven by searching.
const SIZES: [u64; 24] = [35, 45, 16, 55, 51, 8, 38, 54, 51, 59, 40, 19, 8, 12, 40, 51, 48, 51, 25, 22, 42, 10, 42, 37];

/// The node that reads each of them; 24 where none does.
const READERS: [usize; 24] =
    [2, 5, 9, 7, 8, 13, 15, 17, 15, 10, 14, 14, 13, 17, 22, 18, 24, 22, 20, 24, 22, 23, 24, 24];

/// The graph; results that no node reads are outputs.
fn graph() -> String {
    let header = json!({"format": "lastuse-graph", "version": 1, "label": "hard", "n_leafs": 0, "n_nodes": SIZES.len(),
        "buffers": [{"name": "CPU", "alignment": 32, "ggml_alloc_size": 32 * 514}]});
    let lines = SIZES.iter().zip(READERS).enumerate().map(|(id, (&size, reader))| {
        let sources: Vec<usize> = (0..id).filter(|&source| READERS[source] == id).collect();
        let mut line = tensor(id, 32 * size, &sources);
        (line["kind"], line["op"]) = (json!("node"), json!("SQR"));
        line["flags"] = json!(if reader == SIZES.len() { 2 } else { 0 });
        line
    });
    text(&std::iter::once(header).chain(lines).collect::<Vec<_>>())
}

/// The words of a line of the table up to the time, and the outcome behind it.
fn row(table: &str, line: usize) -> (Vec<&str>, String) {
    let mut words: Vec<&str> = table.lines().nth(line).expect("the table has the line").split_whitespace().collect();
    let time = words.iter().rposition(|word| word.contains('.') && word.parse::<f64>().is_ok()).expect("a time");
    let outcome = words.split_off(time)[1..].join(" ");
    (words, outcome)
}

#[test]
fn more_effort_makes_a_smaller_plan_and_proves_that_none_is_smaller() {
    let file = Folder::new("graph-effort").write("hard.jsonl", &graph());
    let ample = planned(&["--effort", AMPLE, &file]);
    let least = (32 * 257).to_string();
    let expected = vec!["hard.jsonl", "24", "24", "16448", &least, "8192", "0.500"];
    assert_eq!(row(&ample, 1), (expected, "optimal: proven".to_owned()));
    let none = planned(&["--effort", "0", &file]);
    let (words, outcome) = row(&none, 1);
    assert_eq!((words[5], outcome.as_str()), ("8192", "smallest found, not proven"));
    assert!(words[4].parse::<u64>().expect("bytes") > 32 * 257, "the graph is easy: {none}");
}

#[test]
fn outcome_is_shown_where_an_effort_is_given() {
    let folder = Folder::new("graph-outcome");
    let (chain, hard) = (folder.write("chain.jsonl", &text(&chain())), folder.write("hard.jsonl", &graph()));
    assert!(!planned(&[&chain, &hard]).contains("outcome"));
    let table = planned(&["--effort", AMPLE, &chain, &hard]);
    assert!(table.lines().next().is_some_and(|title| title.ends_with("us  outcome")), "{table}");
    assert_eq!(row(&table, 1).1, "optimal: proven");
    let summary =
        "2 graphs, 1 at the lower bound; 2 proven to be optimal; lastuse / ggml-alloc: geometric mean 0.5000, ";
    assert!(table.lines().last().is_some_and(|line| line.starts_with(summary)), "{table}");
}

#[test]
fn json_says_whether_more_effort_has_proven_the_plan() {
    let file = Folder::new("graph-effort-json").write("hard.jsonl", &graph());
    let buffer = |effort: &str| -> Value {
        let printed = planned(&["--json", "--effort", effort, &file]);
        let plan: Value = serde_json::from_str(&printed).expect("JSON");
        plan["buffers"][0].clone()
    };
    let (none, ample) = (buffer("0"), buffer(AMPLE));
    assert_eq!((&none["optimal"], &ample["optimal"]), (&json!(false), &json!(true)));
    assert_eq!([&ample["size"], &ample["lower_bound"]], [&json!(32 * 257), &json!(32 * 256)]);
    assert!(none["size"].as_u64() > ample["size"].as_u64(), "{none} {ample}");
}

#[test]
fn reordered_graph_is_planned_with_the_effort() {
    let file = Folder::new("graph-effort-reorder").write("hard.jsonl", &graph());
    let table = planned(&["--reorder", "--effort", AMPLE, &file]);
    let (words, outcome) = row(&table, 1);
    let [bytes, given, bound] = [4, 5, 6].map(|place| words[place].parse::<u64>().expect("bytes"));
    assert!(bytes <= 32 * 257 && given == 32 * 256 && bound <= given, "{table}");
    assert_eq!(outcome, "optimal: proven");
    // The order stays where nothing may be moved; then the plan is the one of the given order.
    let given = planned(&["--reorder", "--reorder-effort", "0", "--effort", AMPLE, &file]);
    assert_eq!((row(&given, 1).0[4], row(&given, 1).1.as_str()), ("8224", "optimal: proven"));
}

#[test]
fn effort_that_is_no_number_is_wrong_usage() {
    let file = Folder::new("graph-effort-usage").write("hard.jsonl", &graph());
    for effort in ["much", "-1", "1.5", "18446744073709551616"] {
        let output = run(&["--effort", effort, &file]);
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""), "{effort}");
    }
}
