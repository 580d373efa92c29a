//! `--tile`: budgets, targets on captured graphs, combinations with other options, and refusals.

use std::fs;
use std::path::Path;

use lastuse_c_tests::{captured_graphs, read_compressed};
use lastuse_vendor::target_folder;
use serde_json::Value;

use super::{assert_fails, planned, run, stderr};

fn captured(name: &str) -> String {
    captured_graphs().join(format!("{name}.jsonl.gz")).to_str().expect("UTF-8").to_owned()
}

/// The table without the time: file, nodes, blocks, ggml-alloc's bytes, bytes, bound, ratio, whole, tiled, tiles, added.
fn row(arguments: &[&str]) -> Vec<String> {
    let table = planned(arguments);
    let mut words: Vec<String> = table.lines().nth(1).expect("a row").split_whitespace().map(str::to_owned).collect();
    words.pop();
    words
}

fn number(row: &[String], column: usize) -> u64 {
    row[column].parse().expect("a number")
}

fn smallest(message: &str) -> u64 {
    let (_, rest) = message.split_once("the smallest needs ").expect("the message has it");
    rest.split(';').next().expect("a number").parse().expect("a number")
}

#[test]
fn captured_graphs_are_tiled_to_a_tile_of_ggml_alloc() {
    for (name, percent) in [("sd-vae-decoder-512", 40), ("sd-sd1-unet-512", 22)] {
        let ggml_alloc = number(&row(&[&captured(name)]), 3);
        let budget = (ggml_alloc * percent / 100).to_string();
        let row = row(&["--tile", &budget, &captured(name)]);
        assert!(number(&row, 4) <= ggml_alloc * percent / 100, "{row:?}");
        assert_eq!(number(&row, 3), ggml_alloc, "ggml-alloc's bytes are those of the given graph");
        assert!(number(&row, 8) > 0 && number(&row, 9) > 1 && number(&row, 10) > 0, "{row:?}");
    }
}

#[test]
fn less_memory_takes_more_nodes() {
    let graph = captured("sd-sd1-unet-512");
    let rows = ["100%", "60%", "40%", "20%", "min"].map(|budget| row(&["--tile", budget, &graph]));
    for pair in rows.windows(2) {
        assert!(number(&pair[1], 4) < number(&pair[0], 4) && number(&pair[1], 1) > number(&pair[0], 1), "{pair:?}");
    }
    assert_eq!((number(&rows[0], 8), number(&rows[0], 10)), (0, 0), "nothing is tiled that fits");
}

#[test]
fn tiling_works_together_with_another_order() {
    let graph = captured("sd-vae-decoder-512");
    let row = row(&["--reorder", "--tile", "700M", &graph]);
    assert!(
        row.iter().any(|word| word.parse::<u64>().is_ok_and(|bytes| bytes > 100 << 20 && bytes <= 700 << 20)),
        "{row:?}"
    );
}

#[test]
fn what_a_program_computes_in_place_is_tiled_as_well() {
    let given = captured("sd-sd1-unet-512");
    let in_place = |line: &str| {
        let mut tensor: Value = serde_json::from_str(line).expect("JSON");
        if tensor["op"] == "SOFT_MAX" {
            (tensor["view_of"], tensor["view_offset"]) = (tensor["src"][0].clone(), 0.into());
        }
        format!("{tensor}\n")
    };
    let file = target_folder().join("c-tests/unet-in-place.jsonl");
    let changed: String = read_compressed(Path::new(&given)).expect("a captured graph").lines().map(in_place).collect();
    fs::write(&file, changed).expect("the target folder can be written to");
    let rows = [&*given, file.to_str().expect("UTF-8")].map(|graph| row(&["--tile", "40%", graph]));
    assert_eq!(rows[0][1..], rows[1][1..]);
    assert!(number(&rows[0], 8) > 0, "{rows:?}");
}

#[test]
fn message_names_the_smallest_budget_and_it_fits() {
    let graph = captured("sd-sd1-unet-512");
    let output = run(&["--tile", "1M", &graph]);
    let smallest = smallest(stderr(&output));
    let message = format!(
        "{graph}: no graph was found that fits 1048576 bytes: the smallest needs {smallest}; use --tile {smallest}, a \
         larger --tile-effort, or fewer --tile-threads"
    );
    assert_fails(&output, &message);
    assert!(number(&row(&["--tile", &smallest.to_string(), &graph]), 4) <= smallest);
    assert_eq!(number(&row(&["--tile", "min", &graph]), 4), smallest);
}

#[test]
fn malformed_budgets_are_wrong_usage() {
    for budget in ["", "much", "-5", "40%%", "99999999999999999999"] {
        let output = run(&[&format!("--tile={budget}"), &captured("sd-sd1-unet-512")]);
        assert_eq!(output.status.code(), Some(2), "{budget}");
        assert!(stderr(&output).contains("give bytes (53000000, 512M), a part (40%), or min"), "{}", stderr(&output));
    }
    assert_eq!(run(&["--tile-threads", "5", &captured("sd-sd1-unet-512")]).status.code(), Some(2));
}

#[test]
fn offsets_of_tensors_that_are_not_in_the_file_are_refused() {
    let graph = captured("sd-sd1-unet-512");
    let output = run(&["--json", "--tile", "min", &graph]);
    assert!(
        stderr(&output).contains("write the graph with lastuse convert --tile, and plan that"),
        "{}",
        stderr(&output)
    );
}
