//! Large pages, and how long they take to open and to paint. Times are printed and not asserted: they are of the machine.

use lastuse_c_tests::{captured_graphs, graphs_in};
use serde_json::json;

use super::{Node, assert_no_problems, browser, drawn, expect, graph_file_with, opened, text_of, value};

/// From the start of the navigation to the first frame after all scripts, in milliseconds.
const OPENED: &str = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
    const [page] = performance.getEntriesByType('navigation');
    done({ bytes: page.decodedBodySize, loaded: page.loadEventEnd, painted: performance.getEntriesByName('first-contentful-paint')[0]?.startTime });
})))";

/// A graph of nodes that read the node before them and one of the forty before that, with sizes from 64 KiB to 4 MiB.
fn six_thousand() -> Vec<Node> {
    const OPS: [&str; 6] = ["MUL_MAT", "ADD", "RMS_NORM", "ROPE", "SOFT_MAX", "CONT"];
    // Numbers without a pattern, always the same.
    let mut state = 1_u32;
    let mut number = |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as usize % below
    };
    let node = |step: usize| {
        let other = step.saturating_sub(number(40));
        let src = if other == step { vec![step] } else { vec![other, step] };
        let name = format!("t{}-{}", step % 7, step / 60);
        Node { name, op: OPS[step % 6], elements: (64 << (2 * number(4))) * 256, src }
    };
    (0..6000).map(node).collect()
}

#[test]
fn six_thousand_tensors_are_painted_in_each_frame() {
    let graph = graph_file_with("six-thousand.jsonl", "six thousand tensors", &six_thousand());
    let mut browser = browser();
    opened(&mut browser, &drawn(&[&graph], "six-thousand.html", &[]));
    let times = value(&mut browser, include_str!("frames.js"));
    println!("milliseconds: {times}");
    assert_eq!((&times["rectangles"], &times["steps"]), (&json!([6001, 6001]), &json!(6000)));
    assert_no_problems(&mut browser);
}

#[test]
fn page_of_25_megabytes_opens() {
    let folder = text_of(&captured_graphs());
    let mut browser = browser();
    let page = drawn(&[&folder, &folder], "megabytes.html", &[]);
    let bytes = std::fs::metadata(&page).map_or(0, |file| file.len());
    assert!(bytes > 25_000_000, "{bytes}");
    for _ in 0..5 {
        opened(&mut browser, &page);
        println!("milliseconds: {}", value(&mut browser, OPENED));
    }
    // One of many graphs is read.
    let read =
        value(&mut browser, "[GRAPHS.length > 200, GRAPHS.filter(({ graph }) => graph).length, state.painters.length]");
    assert_eq!(read, json!([true, 1, 2]));
    assert_no_problems(&mut browser);
}

/// The graphs of a folder that a variable names.
fn graphs() -> Vec<String> {
    let folder = std::env::var_os("LASTUSE_GRAPHS").expect("LASTUSE_GRAPHS names a folder");
    expect(graphs_in(folder.as_ref())).iter().map(|path| text_of(path)).collect()
}

/// How long frames take while each graph of the folder is zoomed.
#[test]
#[ignore = "zooms the graphs of the folder that LASTUSE_GRAPHS names"]
fn frames_of_a_folder() {
    let mut browser = browser();
    for graph in graphs() {
        opened(&mut browser, &drawn(&[&graph], "frames.html", &[]));
        let times = value(&mut browser, include_str!("frames.js"));
        println!("{graph}: {times}");
    }
    assert_no_problems(&mut browser);
}
