//! `lastuse draw`: the page in a real browser, the SVG in documents, and the tool's messages.

mod document;
mod page;
#[path = "../support/mod.rs"]
mod support;
mod tool;

use std::fs;
use std::path::Path;
use std::process::Output;

use lastuse_c_tests::{Browser, captured_graphs};
use lastuse_vendor::target_folder;
use serde_json::{Value, json};
use support::expect;
use support::tool::stderr;

/// A name that must do no harm wherever it is written.
const NASTY: &str = "</script><b>\"'&";

/// Runs `lastuse draw` with arguments.
fn draw(arguments: &[&str]) -> Output {
    support::tool::command(&[&["draw"], arguments].concat()).output().expect("the tool starts")
}

/// A captured graph of the repository.
fn captured(name: &str) -> String {
    text_of(&captured_graphs().join(format!("{name}.jsonl.gz")))
}

fn text_of(path: &Path) -> String {
    path.to_str().expect("the folder has a name in UTF-8").to_owned()
}

/// A path for a file of a test.
fn scratch(name: &str) -> String {
    let folder = target_folder().join("c-tests/picture");
    fs::create_dir_all(&folder).expect("the target folder can be written to");
    text_of(&folder.join(name))
}

/// Draws graphs into a file called `name` and returns its path.
fn drawn(graphs: &[&str], name: &str, more: &[&str]) -> String {
    let path = scratch(name);
    let output = draw(&[graphs, &["-o", path.as_str()], more].concat());
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{graphs:?} {more:?}");
    path
}

fn browser() -> Browser {
    expect(Browser::start(1400, 900))
}

fn opened(browser: &mut Browser, file: &str) {
    expect(browser.open(Path::new(file)));
}

fn value(browser: &mut Browser, expression: &str) -> Value {
    expect(browser.evaluate(expression))
}

fn assert_no_problems(browser: &mut Browser) {
    assert_eq!(expect(browser.problems()), Vec::<String>::new());
}

/// A graph of an input and nodes with these names and sources, 1 MiB each, in the format of files.
fn graph_of(nodes: &[(&str, &[usize])]) -> String {
    let tensor = |id: usize, name: &str, src: &[usize]| {
        let (kind, op) = if src.is_empty() { ("leaf", "NONE") } else { ("node", "MUL_MAT") };
        json!({"id": id, "kind": kind, "op": op, "desc": op, "name": name, "type": "f32", "ne": [262_144, 1, 1, 1],
            "nb": [4, 1 << 20, 1 << 20, 1 << 20], "nbytes": 1 << 20, "size": 1 << 20, "buffer": 0, "flags": 0, "inplace": false,
            "external": false, "src": src})
    };
    let header = json!({"format": "lastuse-graph", "version": 1, "label": format!("label {NASTY}"), "n_leafs": 1,
        "n_nodes": nodes.len(), "buffers": [{"name": "CPU", "alignment": 32, "max_size": null}]});
    let lines = (1..).zip(nodes).map(|(id, (name, src))| tensor(id, name, src));
    [header, tensor(0, "input", &[])].into_iter().chain(lines).map(|line| format!("{line}\n")).collect()
}

/// Writes such a graph into a file.
fn graph_file(name: &str, nodes: &[(&str, &[usize])]) -> String {
    let path = scratch(name);
    fs::write(&path, graph_of(nodes)).expect("the target folder can be written to");
    path
}
