//! Small graphs to draw, and tests of both kinds of pictures.

use lastuse::graph::Rules;
use serde_json::{Value, json};

use crate::formats::read_graph;

use super::{Options, PlanView, Theme, html, svg};

/// A name that must be escaped everywhere.
const NASTY: &str = "</script><b>\"'&x\u{1}";

pub fn text(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn tensor(id: usize, op: &str, elements: usize, src: &[usize]) -> Value {
    let (kind, nbytes) = (if src.is_empty() { "leaf" } else { "node" }, 4 * elements);
    json!({"id": id, "kind": kind, "op": op, "name": format!("t{id}"), "type": "f32", "ne": [elements, 1, 1, 1],
        "nb": [4, nbytes, nbytes, nbytes], "nbytes": nbytes, "size": nbytes, "buffer": 0, "flags": 0,
        "inplace": op == "SCALE", "external": false, "src": src})
}

fn with_header(tensors: Vec<Value>) -> Vec<Value> {
    let leafs = tensors.iter().filter(|tensor| tensor["kind"] == "leaf").count();
    let header = json!({"format": "lastuse-graph", "version": 1, "label": NASTY, "n_leafs": leafs,
        "n_nodes": tensors.len() - leafs, "buffers": [{"name": "CPU", "alignment": 32, "max_size": null}]});
    [header].into_iter().chain(tensors).collect()
}

/// A leaf followed by nodes, all of 1 KiB.
pub fn drawn(nodes: &[(&str, &[usize])]) -> Vec<Value> {
    let mut leaf = tensor(0, "NONE", 256, &[]);
    leaf["flags"] = json!(1);
    let nodes = (1..).zip(nodes).map(|(id, (op, src))| tensor(id, op, 256, src));
    with_header([leaf].into_iter().chain(nodes).collect())
}

/// A chain of two nodes in place.
pub fn scaled_twice() -> Vec<Value> {
    drawn(&[("MUL_MAT", &[0]), ("SCALE", &[1]), ("SCALE", &[2])])
}

/// Two results joined by CONCAT at the peak.
pub fn joined() -> Vec<Value> {
    let leaf = tensor(0, "NONE", 16, &[]);
    let parts = [tensor(1, "MUL_MAT", 256, &[0]), tensor(2, "MUL_MAT", 256, &[0])];
    let rest = [tensor(3, "CONCAT", 512, &[1, 2]), tensor(4, "MUL_MAT", 16, &[3])];
    with_header([leaf].into_iter().chain(parts).chain(rest).collect())
}

/// Draws the plans of ggml-alloc and lastuse, as SVG and as HTML.
fn pictures(lines: &[Value], options: &Options<'_>) -> [String; 2] {
    let snapshot = read_graph(text(lines).as_bytes()).expect("the graph is right");
    let (ours, ggml) = (snapshot.plan(Rules::ALL), snapshot.plan_as_ggml());
    let (ours, ggml) = (ours.expect("sizes are small"), ggml.expect("sizes are small"));
    let view = |label, plan| PlanView { label, snapshot: &snapshot, plan };
    let views = [view("ggml-alloc", &ggml), view("lastuse", &ours)];
    [svg(&views, options), html(&views, options)]
}

fn with_nasty_names(mut lines: Vec<Value>) -> Vec<Value> {
    for line in &mut lines[1..] {
        for key in ["name", "desc", "type"] {
            line[key] = json!(NASTY);
        }
    }
    lines[0]["buffers"][0]["name"] = json!(NASTY);
    lines
}

#[test]
fn names_are_escaped() {
    let title = Some(NASTY);
    let [svg, html] = pictures(&with_nasty_names(scaled_twice()), &Options { title, ..Options::default() });
    assert!(!svg.contains("<b>") && !svg.contains("</script") && !svg.contains('\u{1}'));
    assert!(svg.contains("&lt;/script&gt;&lt;b&gt;&quot;&#39;&amp;x\u{fffd}"));
    assert!(!html.contains("<b>"));
    // One ends the data, one the script.
    assert_eq!(html.matches("</script").count(), 2);
    assert!(html.contains("\\u003c/script>"));
}

#[test]
fn page_loads_nothing() {
    let [_, html] = pictures(&joined(), &Options::default());
    for part in ["http://", "https://", "@import", "src=", "url("] {
        assert!(!html.contains(part), "the page has {part}");
    }
}

#[test]
fn empty_graphs_and_no_graphs_are_drawn() {
    let mut lines = scaled_twice();
    for line in &mut lines[1..] {
        (line["nbytes"], line["size"]) = (json!(0), json!(0));
    }
    let [picture, page] = pictures(&lines, &Options::default());
    assert!(picture.contains("The graph needs no memory") && page.contains("</html>"));
    assert!(!picture.contains("NaN") && !picture.contains("inf"));
    assert!(svg(&[], &Options::default()).contains("The graph needs no memory"));
    assert!(html(&[], &Options::default()).contains("</html>"));
}

#[test]
fn retained_tensors_are_marked() {
    let mut lines = scaled_twice();
    let [without, _] = pictures(&lines, &Options::default());
    assert!(!without.contains(", retained<") && !without.contains("retained for the program"));
    lines[2]["retained"] = json!(true);
    lines[1]["retained_until"] = json!(2);
    let [picture, page] = pictures(&lines, &Options::default());
    // The plan of ggml-alloc computes t2 in place of t1, and keeps neither as long.
    let marked = |name: &str| {
        picture
            .lines()
            .filter(|line| line.contains(&format!("<title>{name}:")))
            .map(|line| line.contains(", retained<"))
            .collect::<Vec<_>>()
    };
    assert_eq!((marked("t1"), marked("t0"), marked("t2")), (vec![false, true], vec![false, true], vec![false, false]));
    assert_eq!(picture.matches("<rect class=\"retained\"").count(), 2, "two tensors");
    assert!(picture.contains(">retained for the program</text>"));
    assert!(page.contains("\"retained\":[1,-1,-2,-2]"), "{page}");
}

#[test]
fn huge_sizes_are_drawn() {
    let mut lines = scaled_twice();
    lines[2]["size"] = json!((1_u64 << 62) - 64);
    let [picture, _] = pictures(&lines, &Options::default());
    assert!(picture.contains("4 EiB") && !picture.contains("NaN") && !picture.contains("inf"));
}

#[test]
fn same_graph_gives_the_same_pictures() {
    assert_eq!(pictures(&joined(), &Options::default()), pictures(&joined(), &Options::default()));
}

#[test]
fn theme_is_applied() {
    let with = |theme| pictures(&joined(), &Options { theme, ..Options::default() });
    let [auto, page] = with(Theme::Auto);
    assert!(auto.contains("prefers-color-scheme: dark") && page.contains("data-theme=\"auto\""));
    for (theme, name) in [(Theme::Light, "light"), (Theme::Dark, "dark")] {
        let [picture, page] = with(theme);
        assert!(!picture.contains("prefers-color-scheme"));
        assert!(page.contains(&format!("data-theme=\"{name}\"")));
    }
}
