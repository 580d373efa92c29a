//! The output and exit codes of `lastuse convert`: graphs to placement problems, and back.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use crate::support;
use crate::support::tool::{assert_fails_with, stderr};
use lastuse_vendor::target_folder;
use serde_json::Value;

fn tool(arguments: &[&str]) -> Output {
    support::tool::command(arguments).output().expect("the tool starts")
}

fn done(arguments: &[&str]) -> String {
    let output = tool(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn folder(test: &str) -> PathBuf {
    let folder = target_folder().join("c-tests/convert-tool").join(test);
    fs::create_dir_all(&folder).expect("the target folder can be written to");
    folder
}

fn file(test: &str, name: &str) -> String {
    folder(test).join(name).to_str().expect("UTF-8").to_owned()
}

fn capture() -> String {
    let file = lastuse_c_tests::folder().join("graphs/llama-8-flash.jsonl.gz");
    file.to_str().expect("UTF-8").to_owned()
}

/// The bytes and the lower bound in a table of one line, by how many columns from the right.
fn column<'a>(table: &'a str, title: &str) -> &'a str {
    let lines: Vec<&str> = table.lines().collect();
    let end = lines[0].find(title).expect("a column") + title.len();
    lines[1][..end].split_whitespace().last().expect("a value")
}

#[test]
fn a_graph_becomes_the_problem_that_is_planned() {
    let csv = file("problem", "llama.csv");
    done(&["convert", &capture(), "-o", &csv]);
    let (graph, problem) = (done(&["plan", &capture()]), done(&["plan", &csv]));
    for title in ["lastuse", "lower bound"] {
        assert_eq!(column(&graph, title), column(&problem, title), "{title}\n{graph}{problem}");
    }
    let ggml = file("problem", "ggml.csv");
    done(&["convert", "--rules", "ggml", "--buffer", "0", &capture(), "-o", &ggml]);
    let bound = |table: &str| column(table, "lower bound").parse::<u64>().expect("a number");
    assert!(bound(&done(&["plan", &ggml])) > bound(&problem));
}

#[test]
fn ids_are_those_of_the_graph() {
    let rows = done(&["convert", &capture(), "-o", "-"]);
    let plan: Value = serde_json::from_str(&done(&["plan", "--json", &capture()])).expect("JSON");
    let known: Vec<u64> =
        plan["tensors"].as_array().expect("tensors").iter().filter_map(|tensor| tensor["id"].as_u64()).collect();
    let mut lines = rows.lines();
    assert_eq!(lines.next(), Some("id,lower,upper,size,alignment"));
    let ids: Vec<u64> = lines.map(|line| line.split(',').next().expect("a field").parse().expect("a number")).collect();
    assert!(ids.len() > 50 && ids.iter().all(|id| known.contains(id)), "{ids:?}");
}

#[test]
fn a_problem_becomes_a_graph_and_comes_back() {
    let (problem, graph, again) = (file("back", "p.csv"), file("back", "g.jsonl.gz"), file("back", "again.csv"));
    fs::write(&problem, "id,lower,upper,size\nb,2,5,30\na,0,3,10\nc,3,4,20\n").expect("it can be written");
    done(&["convert", &problem, "-o", &graph]);
    done(&["convert", &graph, "-o", &again]);
    for file in [&graph, &again] {
        assert_eq!(column(&done(&["plan", file]), "lower bound"), "50", "{file}");
    }
    assert_eq!(fs::read_to_string(&again).expect("it is there").lines().count(), 4);
    assert_eq!(fs::read(&graph).expect("it is there")[..2], [0x1f, 0x8b], "compressed");
}

#[test]
fn what_cannot_be_converted_is_named() {
    let problem = file("wrong", "p.csv");
    fs::write(&problem, "id,lower,upper,size\na,0,3,10\n").expect("it can be written");
    let graph = capture();
    for (code, arguments, message) in [
        (1, vec!["convert", "--buffer", "GPU", &graph, "-o", "-"], "there is no buffer \"GPU\"; the graph has 0 (CPU)"),
        (
            2,
            vec!["convert", "--buffer", "0", &problem, "-o", "-"],
            "--buffer, --rules, --recompute and --tile are for graphs",
        ),
        (1, vec!["convert", "/nonexistent", "-o", "-"], "/nonexistent: no such file"),
        (1, vec!["convert", &problem, "-o", "/nonexistent/x.jsonl"], "/nonexistent/x.jsonl: cannot be written"),
    ] {
        let output = tool(&arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
    }
    assert_eq!(tool(&["convert", &graph]).status.code(), Some(2), "no output");
}

/// None of these has an end of a line anywhere near, or an end.
#[test]
fn endless_files_are_refused() {
    for file in ["/dev/zero", "-"] {
        let mut command = support::tool::command(&[]);
        command.args(["plan", file]).stdin(fs::File::open("/dev/zero").expect("a device of Linux"));
        let output = command.output().expect("the tool starts");
        assert_eq!(output.status.code(), Some(1), "{file}");
        assert!(stderr(&output).contains("something else than a graph"), "{}", stderr(&output));
    }
}

fn training() -> String {
    let file = lastuse_c_tests::captured_graphs().join("train-8-512.jsonl.gz");
    file.to_str().expect("UTF-8").to_owned()
}

#[test]
fn recomputed_graphs_are_planned_and_checked_as_any_other() {
    let (graph, again, plan) =
        (file("recompute", "less.jsonl.gz"), file("recompute", "again.jsonl.gz"), file("recompute", "plan.json"));
    for output in [&graph, &again] {
        done(&["convert", "--recompute", "50000000", &training(), "-o", output]);
    }
    assert!(fs::read(&graph).expect("it is there") == fs::read(&again).expect("it is there"), "the result differs");
    let direct = done(&["plan", "--recompute", "50000000", &training()]);
    let converted = done(&["plan", &graph]);
    for title in ["nodes", "blocks", "lastuse", "lower bound"] {
        assert_eq!(column(&converted, title), column(&direct, title), "{title}\n{converted}{direct}");
    }
    assert!(column(&converted, "lastuse").parse::<u64>().is_ok_and(|bytes| bytes <= 50_000_000), "{converted}");
    fs::write(&plan, done(&["plan", "--json", &graph])).expect("it can be written");
    done(&["check", &graph, &plan]);
    let output = tool(&["convert", "--recompute", "1M", &training(), "-o", "-"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("the smallest needs "), "{}", stderr(&output));
}

#[test]
fn recomputation_is_from_graph_to_graph() {
    let (csv, problem) = (file("recompute", "graph.csv"), file("recompute", "p.csv"));
    let output = tool(&["convert", "--recompute", "50%", &training(), "-o", &csv]);
    let message =
        "--recompute writes a graph: name the output *.jsonl or *.jsonl.gz, and convert that to CSV; see --help";
    assert_fails_with(2, &output, message);
    fs::write(&problem, "id,lower,upper,size\nb,2,5,30\n").expect("it can be written");
    let output = tool(&["convert", "--recompute", "50%", &problem, "-o", "-"]);
    let message = "--buffer, --rules, --recompute and --tile are for graphs, but this is a placement problem";
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output), format!("lastuse: error: {problem}: {message}\n"));
}

fn unet() -> String {
    let file = lastuse_c_tests::captured_graphs().join("sd-sd1-unet-512.jsonl.gz");
    file.to_str().expect("UTF-8").to_owned()
}

#[test]
fn cut_graphs_are_planned_and_checked_as_any_other() {
    let (graph, again, plan) =
        (file("split", "parts.jsonl.gz"), file("split", "again.jsonl.gz"), file("split", "plan.json"));
    for output in [&graph, &again] {
        done(&["convert", "--tile", "22%", &unet(), "-o", output]);
    }
    assert!(fs::read(&graph).expect("it is there") == fs::read(&again).expect("it is there"), "the result differs");
    let direct = done(&["plan", "--tile", "22%", &unet()]);
    let converted = done(&["plan", &graph]);
    for title in ["nodes", "blocks", "lastuse", "lower bound"] {
        assert_eq!(column(&converted, title), column(&direct, title), "{title}\n{converted}{direct}");
    }
    fs::write(&plan, done(&["plan", "--json", &graph])).expect("it can be written");
    done(&["check", &graph, &plan]);
}

#[test]
fn cutting_is_from_graph_to_graph_within_what_can_be_met() {
    let csv = file("split", "graph.csv");
    let output = tool(&["convert", "--tile", "22%", &unet(), "-o", &csv]);
    let message = "--tile writes a graph: name the output *.jsonl or *.jsonl.gz, and convert that to CSV; see --help";
    assert_fails_with(2, &output, message);
    let output = tool(&["convert", "--tile", "1M", &unet(), "-o", "-"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("the smallest needs "), "{}", stderr(&output));
}
