//! The SVG, as documents show it.

use std::fs;
use std::path::PathBuf;

use super::{NASTY, assert_no_problems, browser, captured, draw, drawn, expect, graph_file, opened, value};

/// The picture in the documentation, and how it is made.
fn documented() -> (PathBuf, [String; 3]) {
    let picture = lastuse_c_tests::folder().with_file_name("docs").join("memory.svg");
    (picture, [captured("flash-v32k-llama"), "-o".to_owned(), "-".to_owned()])
}

#[test]
fn picture_in_the_documentation_is_what_the_tool_draws() {
    let (picture, arguments) = documented();
    let output = draw(&[arguments.each_ref().map(String::as_str).as_slice(), &["--format", "svg"]].concat());
    if std::env::var_os("LASTUSE_UPDATE").is_some() {
        fs::write(&picture, &output.stdout).expect("the repository can be written to");
    }
    let committed = fs::read(&picture).expect("docs/memory.svg is there");
    assert!(committed == output.stdout, "docs/memory.svg differs from the tool's picture; LASTUSE_UPDATE=1 updates it");
    assert!(committed.len() < 300_000, "{} bytes are much for a repository", committed.len());
}

#[test]
fn picture_is_seen_in_light_and_in_dark() {
    let mut browser = browser();
    let picture = drawn(&[&captured("flash-v32k-llama")], "theme.svg", &[]);
    let background = "getComputedStyle(document.querySelector('.page')).fill";
    for (dark, colour) in [(false, "rgb(255, 255, 255)"), (true, "rgb(15, 19, 24)")] {
        expect(browser.prefer_dark(dark));
        opened(&mut browser, &picture);
        assert_eq!(value(&mut browser, background), colour);
        let colours = expect(browser.colours());
        assert!(colours > 200, "there are {colours} colours only");
    }
    for (theme, colour) in [("light", "rgb(255, 255, 255)"), ("dark", "rgb(15, 19, 24)")] {
        opened(&mut browser, &drawn(&[&captured("flash-v32k-llama")], "one-theme.svg", &["--theme", theme]));
        assert_eq!(value(&mut browser, background), colour);
    }
    assert_no_problems(&mut browser);
}

#[test]
fn names_neither_overlap_nor_leave_the_picture() {
    let mut browser = browser();
    for graph in ["flash-v32k-llama", "noflash-v128k-llama", "sd-sd1-unet-512", "train-4-256"] {
        opened(&mut browser, &drawn(&[&captured(graph)], "names.svg", &[]));
        let wrong = value(
            &mut browser,
            "(() => {
                const whole = document.documentElement.getBoundingClientRect();
                const boxes = [...document.querySelectorAll('text')].map((one) => [one.textContent, one.getBoundingClientRect()]);
                const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2;
                const pairs = boxes.flatMap(([one, a], index) => boxes.slice(index + 1).filter(([, b]) => meet(a, b)).map(([other]) => [one, other]));
                const outside = boxes.filter(([, box]) => box.left < 0 || box.right > whole.right + 1 || box.bottom > whole.bottom + 1);
                return [...pairs, ...outside.map(([text]) => text)];
            })()",
        );
        assert_eq!(wrong, serde_json::json!([]), "{graph}");
    }
}

#[test]
fn names_are_text_in_documents_too() {
    let graph = graph_file("nasty-svg.jsonl", &[(NASTY, &[0]), ("<circle id='harm'/>", &[1])]);
    let mut browser = browser();
    opened(&mut browser, &drawn(&[&graph], "nasty.svg", &[]));
    assert_eq!(value(&mut browser, "document.querySelectorAll('b, script, #harm, parsererror').length"), 0);
    let titles = value(&mut browser, "[...document.querySelectorAll('rect title')].map((one) => one.textContent)");
    let is_there = |name: &str| {
        titles
            .as_array()
            .expect("a list")
            .iter()
            .any(|title| title.as_str().is_some_and(|title| title.starts_with(name)))
    };
    assert!(is_there(NASTY) && is_there("<circle id='harm'/>: MUL_MAT, 1 MiB"), "{titles}");
    assert_no_problems(&mut browser);
}
