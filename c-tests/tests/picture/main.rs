//! `lastuse draw`: the page in a real browser, the SVG in documents, and the tool's messages.

mod document;
mod documented_page;
mod live;
mod page;
mod speed;
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

/// A function for expressions: a pen to read the pixels of a painter with. A canvas that is read itself warns, and gets slow.
const PIXELS: &str = "((painter) => { const { canvas } = painter;
    const pen = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
    pen.drawImage(canvas, 0, 0);
    return pen; })";

fn assert_no_problems(browser: &mut Browser) {
    assert_eq!(expect(browser.problems()), Vec::<String>::new());
}

/// Opens a page in the light and in the dark, checks it, and leaves a screenshot of each in the folder of the scratch files.
fn in_light_and_dark(page: &str, name: &str, check: impl Fn(&mut Browser)) {
    let mut browser = browser();
    for dark in [false, true] {
        expect(browser.prefer_dark(dark));
        opened(&mut browser, page);
        assert_eq!(value(&mut browser, "isDark()"), dark);
        check(&mut browser);
        let png = expect(browser.png());
        let file = scratch(&format!("{name}-{}.png", if dark { "dark" } else { "light" }));
        fs::write(file, png).expect("the target folder can be written to");
        assert_no_problems(&mut browser);
    }
}

/// A node of a graph that is written for a test.
#[derive(Clone)]
struct Node {
    name: String,
    op: &'static str,
    /// Elements, of 4 bytes each.
    elements: usize,
    /// Ids; the input is 0, and nodes follow it.
    src: Vec<usize>,
}

impl Node {
    fn new(name: &str, op: &'static str, kib: usize, src: &[usize]) -> Self {
        Self { name: name.to_owned(), op, elements: kib * 256, src: src.to_vec() }
    }
}

/// A graph of an input of 1 MiB and nodes, in the format of files.
fn graph_with(label: &str, nodes: &[Node]) -> String {
    let tensor = |id: usize, node: &Node| {
        let (kind, bytes) = (if node.src.is_empty() { "leaf" } else { "node" }, 4 * node.elements);
        json!({"id": id, "kind": kind, "op": node.op, "desc": node.op, "name": node.name, "type": "f32",
            "ne": [node.elements, 1, 1, 1], "nb": [4, bytes, bytes, bytes], "nbytes": bytes, "size": bytes, "buffer": 0,
            "flags": 0, "inplace": false, "external": false, "src": node.src})
    };
    let header = json!({"format": "lastuse-graph", "version": 1, "label": label, "n_leafs": 1,
        "n_nodes": nodes.len(), "buffers": [{"name": "CPU", "alignment": 32, "max_size": null}]});
    let lines = (1..).zip(nodes).map(|(id, node)| tensor(id, node));
    let input = tensor(0, &Node::new("input", "NONE", 1024, &[]));
    [header, input].into_iter().chain(lines).map(|line| format!("{line}\n")).collect()
}

/// A chain of nodes of 64 KiB, of which some, by step, have another name, operation and size in KiB.
fn chain_with(steps: usize, others: &[(usize, &str, &'static str, usize)]) -> Vec<Node> {
    let mut nodes: Vec<Node> =
        (0..steps).map(|step| Node::new(&format!("small-{step}"), "MUL_MAT", 64, &[step])).collect();
    for &(step, name, op, kib) in others {
        nodes[step] = Node::new(name, op, kib, &[step]);
    }
    nodes
}

/// Writes a graph into a file, and returns its path.
fn graph_file_with(name: &str, label: &str, nodes: &[Node]) -> String {
    let path = scratch(name);
    fs::write(&path, graph_with(label, nodes)).expect("the target folder can be written to");
    path
}

/// A graph of an input and nodes with these names and sources, 1 MiB each, in the format of files.
fn graph_of(nodes: &[(&str, &[usize])]) -> String {
    let nodes: Vec<Node> = nodes.iter().map(|(name, src)| Node::new(name, "MUL_MAT", 1024, src)).collect();
    graph_with(&format!("label {NASTY}"), &nodes)
}

/// Writes such a graph into a file.
fn graph_file(name: &str, nodes: &[(&str, &[usize])]) -> String {
    let path = scratch(name);
    fs::write(&path, graph_of(nodes)).expect("the target folder can be written to");
    path
}
