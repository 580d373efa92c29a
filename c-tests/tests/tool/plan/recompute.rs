//! `--recompute`: budgets, combinations with other options, and refusals.

use lastuse_c_tests::captured_graphs;
use serde_json::{Value, json};

use super::{Folder, assert_fails, assert_fails_with, header, planned, run, stderr, text};

/// Bytes of the plan for the given training graph of 8 layers.
const GIVEN: u64 = 321_917_024;

fn captured(name: &str) -> String {
    captured_graphs().join(format!("{name}.jsonl.gz")).to_str().expect("UTF-8").to_owned()
}

fn training() -> String {
    captured("train-8-512")
}

/// The table without the time.
fn row(arguments: &[&str]) -> Vec<String> {
    let table = planned(arguments);
    let mut words: Vec<String> = table.lines().nth(1).expect("a row").split_whitespace().map(str::to_owned).collect();
    words.pop();
    words
}

/// The bytes of a row: after the file, nodes, blocks and ggml-alloc's bytes.
fn bytes(row: &[String]) -> u64 {
    row[4].parse().expect("a number")
}

/// The work of a row, its last column without the time.
fn work(row: &[String]) -> f64 {
    row.last().expect("a column").parse().expect("a number")
}

/// Returns the smallest budget, as the message says it.
fn smallest(message: &str) -> u64 {
    let (_, rest) = message.split_once("the smallest needs ").expect("the message has it");
    rest.split(';').next().expect("a number").parse().expect("a number")
}

#[test]
fn budgets_in_bytes_and_in_parts_are_kept() {
    for (budget, most) in [("160000000", 160_000_000), ("100M", 100 << 20), ("50%", GIVEN / 2), ("25%", GIVEN / 4)] {
        let row = row(&["--recompute", budget, &training()]);
        assert!(bytes(&row) <= most && work(&row) > 1.0 && work(&row) < 1.25, "{budget}: {row:?}");
        assert_eq!(row[3], "338694240", "ggml-alloc's bytes are those of the given graph");
    }
    let fits = row(&["--recompute", "100%", &training()]);
    assert_eq!((bytes(&fits), work(&fits)), (GIVEN, 1.0), "{fits:?}");
    assert_eq!(fits[fits.len() - 2], "0", "nothing runs again");
}

#[test]
fn less_memory_takes_more_work() {
    let rows = ["90%", "60%", "40%", "20%", "min"].map(|budget| row(&["--recompute", budget, &training()]));
    for pair in rows.windows(2) {
        assert!(bytes(&pair[1]) < bytes(&pair[0]) && work(&pair[1]) >= work(&pair[0]), "{pair:?}");
    }
}

#[test]
fn message_names_the_smallest_budget_and_it_fits() {
    let output = run(&["--recompute", "1M", &training()]);
    let smallest = smallest(stderr(&output));
    let message = format!(
        "{}: no graph was found that fits 1048576 bytes: the smallest needs {smallest}; use --recompute {smallest}, or a \
         larger --recompute-effort",
        training()
    );
    assert_fails(&output, &message);
    let found = row(&["--recompute", &smallest.to_string(), &training()]);
    assert!(bytes(&found) <= smallest, "{found:?}");
    let min = row(&["--recompute", "min", &training()]);
    assert_eq!(bytes(&min), smallest);
}

#[test]
fn malformed_budgets_are_wrong_usage() {
    for budget in ["", "much", "-5", "40%%", "99999999999999999999"] {
        let output = run(&[&format!("--recompute={budget}"), &training()]);
        assert_eq!(output.status.code(), Some(2), "{budget}");
        assert!(stderr(&output).contains("give bytes (53000000, 512M), a part (40%), or min"), "{}", stderr(&output));
    }
    assert_eq!(run(&["--recompute-effort", "5", &training()]).status.code(), Some(2));
}

#[test]
fn graphs_without_a_loss_are_refused() {
    let graph = captured("llama-8-flash");
    let message = format!(
        "{graph}: the graph has no loss: recomputation is for training graphs, in which ggml_set_loss flags the loss and \
         ggml_build_backward_expand adds the backward pass"
    );
    assert_fails(&run(&["--recompute", "50%", &graph]), &message);
}

#[test]
fn graphs_without_a_backward_pass_are_refused() {
    let buffers = json!([{"name": "CPU", "alignment": 32, "max_size": null}]);
    let mut loss = super::tensor(1, 100, &[0]);
    loss["flags"] = json!(8);
    let lines: Vec<Value> = vec![header(&buffers, 1), super::tensor(0, 100, &[]), loss];
    let file = Folder::new("no-backward").write("forward.jsonl", &text(&lines));
    let message = format!(
        "{file}: the graph has no backward pass: no node follows the loss; add it with ggml_build_backward_expand first"
    );
    assert_fails(&run(&["--recompute", "min", &file]), &message);
}

#[test]
fn csv_and_json_are_refused_with_advice() {
    let problem = Folder::new("recompute-csv").write("one.csv", "id,lower,upper,size\na,0,3,4\n");
    let message =
        format!("{problem}: --recompute is for graphs; the blocks of a CSV file have no nodes to compute again");
    assert_fails_with(2, &run(&["--recompute", "50%", &problem]), &message);
    let message = "--json is for the tensors of the file, not for those that --recompute adds: write the graph with lastuse \
                   convert --recompute, and plan that; see --help";
    assert_fails_with(2, &run(&["--json", "--recompute", "50%", &training()]), message);
}

#[test]
fn other_options_apply_to_the_new_graph() {
    let alone = row(&["--recompute", "50%", &training()]);
    let reordered = row(&["--recompute", "50%", "--reorder", &training()]);
    assert!(bytes(&reordered) <= bytes(&alone), "{reordered:?} {alone:?}");
    let rules = row(&["--recompute", "50%", "--rules", "ggml", &training()]);
    let given = row(&["--rules", "ggml", &training()]);
    assert!(bytes(&rules) <= given[4].parse::<u64>().expect("a number") / 2, "{rules:?} {given:?}");
    let retained = row(&["--recompute", "50%", "--retain", "loss", &training()]);
    assert!(bytes(&retained) <= GIVEN / 2 + 64, "{retained:?}");
}

#[test]
fn results_are_the_same_every_time() {
    let rows = [(); 2].map(|()| row(&["--recompute", "30%", &training()]));
    assert_eq!(rows[0], rows[1]);
    let little = [(); 2].map(|()| row(&["--recompute", "30%", "--recompute-effort", "300000", &training()]));
    assert_eq!(little[0], little[1]);
}

#[test]
fn a_file_that_is_refused_does_not_stop_the_others() {
    let folder = Folder::new("recompute-others");
    let broken = folder.write("broken.jsonl", "nonsense\n");
    let output = run(&["--recompute", "50%", &broken, &training()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("train-8-512"), "{output:?}");
}
