//! Folders where files are taken, files of other kinds, and outputs by their endings.

use std::fs;

use super::{assert_refused, folder, graph, printed, run, text, write};
use crate::support::tool::{stderr, stdout};

#[test]
fn folders_stand_for_their_graphs() {
    let folder = folder("graphs");
    for name in ["b.jsonl.gz", "a.jsonl.gz", "notes.txt", "plan.json"] {
        write(&folder.join(name), &graph());
    }
    let place = text(&folder);
    let lines = printed(&["plan", place]);
    let names: Vec<&str> = lines.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["a.jsonl.gz", "b.jsonl.gz", "2"], "{lines}");
    let summary = printed(&["explain", "--top", "1", place]);
    assert!(summary.starts_with("2 graphs, the largest first"), "{summary}");
    let explained = printed(&["explain", "--all", "--top", "1", place]);
    assert_eq!(explained.matches("steps counted from 0").count(), 2, "{explained}");
    assert!(explained.starts_with(&format!("{place}/a.jsonl.gz: ")), "{explained}");
    let map = folder.join("map.svg");
    assert_eq!(printed(&["draw", place, "-o", text(&map)]), "");
    assert!(fs::read_to_string(&map).expect("it was drawn").contains("</svg>"));
    let both = printed(&["plan", place, &format!("{place}/a.jsonl.gz")]);
    assert!(both.contains("3 graphs, "), "{both}");
    let message = format!("{place}: this is a folder: give one of its graphs, such as {place}/a.jsonl.gz");
    assert_refused(&["convert", place, "-o", "-"], 1, &message);
}

#[test]
fn folders_without_graphs_are_refused() {
    let folder = folder("empty");
    let (place, good) = (text(&folder), write(&folder.with_extension("jsonl.gz"), &graph()));
    let message = format!(
        "{place}: the folder has no graph, which is a file named *.jsonl or *.jsonl.gz; \"lastuse run --capture DIR \
         PROGRAM\" writes those of a program"
    );
    let svg = folder.with_extension("svg");
    for command in [
        &["plan", place][..],
        &["explain", place],
        &["draw", place, "-o", text(&svg)],
        &["offload", place, "--device", "gpu=1G"],
        &["check", place, "plan.json"],
    ] {
        assert_refused(command, 1, &message);
    }
    let output = run(&["plan", place, &good]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(1), format!("lastuse: error: {message}\n").as_str()));
    assert!(stdout(&output).contains("empty.jsonl.gz"), "the other file is planned");
}

#[test]
fn files_of_other_kinds_are_told_what_to_do() {
    let folder = folder("foreign");
    let capture = "\"lastuse run --capture DIR";
    let drawn = "if \"lastuse draw\" made it, give the graph that it was drawn from (*.jsonl)";
    let program = "if it is a program that uses ggml, capture its graphs with";
    for (name, bytes, message) in [
        (
            "model.gguf",
            &b"GGUF\x03\0\0\0"[..],
            format!("a model (GGUF), not a graph: capture graphs of a program that runs it with {capture} PROGRAM\""),
        ),
        (
            "model.jsonl.gz",
            b"\x0a\x01\0\0\0\0\0\0{\"x\":{}}",
            format!(
                "a model (safetensors), not a graph: capture graphs of a program that runs it with {capture} PROGRAM\""
            ),
        ),
        ("program", b"\x7fELF\x02", format!("a program or a library (ELF), not a graph: {program} {capture} FILE\"")),
        ("script", b"#!/bin/sh\n", format!("a script, not a graph: {program} {capture} FILE\"")),
        ("map.html", b"<!doctype html>\n<html>", format!("an HTML page, not a graph: {drawn}")),
        ("map.png", b"\x89PNG\r\n\x1a\n", format!("a picture (PNG), not a graph: {drawn}")),
        ("map.svg", b"<svg xmlns=\"x\">", format!("a picture (SVG), not a graph: {drawn}")),
    ] {
        let file = write(&folder.join(name), bytes);
        for command in [
            &["plan", &file][..],
            &["explain", &file],
            &["draw", &file, "-o", "-", "--format", "svg"],
            &["convert", &file, "-o", "-"],
            &["offload", &file, "--device", "gpu=1G"],
            &["check", &file, "plan.json"],
        ] {
            assert_refused(command, 1, &format!("{file}: this is {message}"));
        }
    }
    let (good, page) = (write(&folder.join("good.jsonl.gz"), &graph()), write(&folder.join("p.html"), b"<html>"));
    let message = format!("{page}: this is an HTML page, not a plan: \"lastuse plan --json GRAPH\" prints one");
    assert_refused(&["check", &good, &page], 1, &message);
}

#[test]
fn endings_of_outputs_choose_or_are_refused() {
    let folder = folder("outputs");
    let graph = write(&folder.join("graph.jsonl.gz"), &graph());
    let problem = write(&folder.join("problem.csv"), b"id,lower,upper,size\na,0,3,10\n");
    let [plain, csv] = ["plain.jsonl", "blocks.csv"].map(|name| folder.join(name));
    printed(&["convert", &graph, "-o", text(&plain)]);
    assert!(fs::read(&plain).expect("it was written").starts_with(b"{\"format\":\"lastuse-graph\""));
    assert_eq!(printed(&["plan", "--json", text(&plain)]), printed(&["plan", "--json", &graph]));
    printed(&["convert", &graph, "-o", text(&csv)]);
    assert!(fs::read(&csv).expect("it was written").starts_with(b"id,lower,upper,size"));
    let usage = |arguments: &[&str], message: &str| assert_refused(arguments, 2, &format!("{message}; see --help"));
    let known = "ends in none of .csv, .csv.gz, .jsonl, .jsonl.gz: rename the output";
    usage(&["convert", &graph, "-o", "x.json"], &format!("\"x.json\" {known}"));
    usage(&["plan", "-o", "x.txt", &problem], "\"x.txt\" does not end in .csv: rename the output");
    let stats = ["offload", &graph, "--device", "gpu=1G", "--hotness", "stats", "-o", "x.bin"];
    usage(&stats, "\"x.bin\" does not end in .gpuidx: rename the output");
    let neurons = ["neurons", "stats", "--neurons", "64", "--vram-capacity", "1", "-o", "x.bin"];
    usage(&neurons, "\"x.bin\" ends neither in .gpuidx nor in .gguf: rename the output");
    let model = write(&folder.join("model.gguf"), b"GGUF\x03\0\0\0");
    let message = format!(
        "{model}: this is a model (GGUF), not a list of neurons: \"lastuse neurons ... -o FILE.gpuidx\" writes one"
    );
    assert_refused(&["neurons", "--check", &model], 1, &message);
    let message = "--buffer and --rules are for the live ranges of a graph: name the output *.csv";
    usage(&["convert", "--rules", "ggml", &graph, "-o", text(&plain)], message);
    let message =
        format!("{problem}: this is a placement problem already: name the output *.jsonl or *.jsonl.gz for a graph");
    assert_refused(&["convert", &problem, "-o", text(&csv)], 2, &message);
}

#[test]
fn outputs_that_cannot_be_written_name_the_folder() {
    let folder = folder("unwritable");
    let (graph, nowhere) = (write(&folder.join("graph.jsonl.gz"), &graph()), folder.join("nowhere"));
    for name in ["map.svg", "map.html"] {
        let output = nowhere.join(name);
        let message = format!("{}: cannot be written: there is no folder {}", output.display(), nowhere.display());
        assert_refused(&["draw", &graph, "-o", text(&output)], 1, &message);
    }
    let place = folder.join("folder.csv");
    fs::create_dir(&place).expect("the target folder can be written to");
    let message = format!("{}: cannot be written: it is a folder", place.display());
    assert_refused(&["convert", &graph, "-o", text(&place)], 1, &message);
    let missing = nowhere.join("graph.jsonl");
    let message = format!("{}: no such file: there is no folder {}", missing.display(), nowhere.display());
    assert_refused(&["plan", text(&missing)], 1, &message);
}
