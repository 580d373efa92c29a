//! Whatever the tool does with a graph takes time that grows as the graph does: comparing all pairs of 300,000 nodes
//! would take minutes, and so would planning 311 tensors anew for each of 70,000 buffers.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::support::expect;
use lastuse_c_tests::tool_with_libraries_inside;
use lastuse_vendor::target_folder;

/// Seconds for one command of the tool as users have it, which takes one or two on a machine that does nothing else.
const PATIENCE: &str = "60";

/// The exit code of `timeout` when a command has taken longer.
const TOO_LONG: i32 = 124;

fn tool() -> &'static Path {
    static TOOL: OnceLock<PathBuf> = OnceLock::new();
    TOOL.get_or_init(|| expect(tool_with_libraries_inside()))
}

fn run(arguments: &[&str]) -> Output {
    let output = Command::new("timeout").arg(PATIENCE).arg(tool()).args(arguments).output().expect("timeout is there");
    assert_ne!(output.status.code(), Some(TOO_LONG), "{arguments:?} takes more than {PATIENCE} s");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// A separate folder for each test.
fn folder(test: &str) -> PathBuf {
    let folder = target_folder().join("c-tests/large-graphs").join(test);
    fs::create_dir_all(&folder).expect("the target folder can be written to");
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the target folder has a name in UTF-8")
}

/// An input and `nodes` nodes: each reads the one before it, and in the second half also one of the first half, as the
/// way back of training does. So half of them are live at once.
fn graph(buffers: usize, nodes: usize) -> String {
    let buffer = |at| format!("{{\"name\":\"B{at}\",\"alignment\":32,\"max_size\":null}}");
    let buffers: Vec<String> = (0..buffers).map(buffer).collect();
    let mut text = format!(
        "{{\"format\":\"lastuse-graph\",\"version\":1,\"label\":\"large\",\"n_leafs\":1,\"n_nodes\":{nodes},\"buffers\":[{}]}}\n",
        buffers.join(",")
    );
    for id in 0..=nodes {
        let (kind, op, flags) = if id == 0 { ("leaf", "NONE", 1) } else { ("node", "MUL_MAT", 0) };
        let sources = match id {
            0 => String::new(),
            _ if id <= nodes / 2 => format!("{}", id - 1),
            _ => format!("{},{}", id - 1, nodes + 1 - id),
        };
        let bytes = 1024 * (1 + id * 7 % 16);
        let _ = writeln!(
            text,
            "{{\"id\":{id},\"kind\":\"{kind}\",\"op\":\"{op}\",\"name\":\"t{id}\",\"type\":\"f32\",\"ne\":[{},1,1,1],\
             \"nb\":[4,{bytes},{bytes},{bytes}],\"nbytes\":{bytes},\"size\":{bytes},\"buffer\":0,\"flags\":{flags},\
             \"inplace\":false,\"external\":false,\"src\":[{sources}]}}",
            bytes / 4
        );
    }
    text
}

/// Plans, checks, explains, draws and converts a graph. Returns the explanation.
fn do_all(test: &str, graph: &str, more: &[&str]) -> String {
    let folder = folder(test);
    let [file, plan, svg, html, csv] =
        ["graph.jsonl", "plan.json", "map.svg", "map.html", "blocks.csv"].map(|name| folder.join(name));
    fs::write(&file, graph).expect("the target folder can be written to");
    run(&["plan", text(&file)]);
    let json = run(&["plan", "--json", text(&file)]).stdout;
    fs::write(&plan, json).expect("the target folder can be written to");
    run(&["check", text(&file), text(&plan)]);
    run(&["draw", text(&file), "-o", text(&svg)]);
    run(&["draw", text(&file), "-o", text(&html)]);
    run(&[&["convert", text(&file), "-o", text(&csv)], more].concat());
    let explanation = run(&["explain", text(&file)]).stdout;
    fs::remove_dir_all(&folder).expect("the folder is there");
    String::from_utf8(explanation).expect("the tool prints UTF-8")
}

#[test]
fn graph_of_300_000_nodes() {
    let explanation = do_all("nodes", &graph(1, 300_000), &[]);
    assert!(explanation.starts_with("large: 300000 nodes"), "{}", &explanation[..200]);
    assert!(explanation.contains("not every change was tried"), "{}", &explanation[explanation.len() - 200..]);
}

#[test]
fn header_that_lists_70_000_buffers() {
    let explanation = do_all("buffers", &graph(70_000, 310), &["--buffer", "B0"]);
    assert_eq!(explanation.matches("\nBuffer ").count(), 70_000);
    assert_eq!(explanation.matches("The buffer is empty.").count(), 69_999);
}
