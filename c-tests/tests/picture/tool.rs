//! Arguments, messages and exit codes of `lastuse draw`.

use std::fs;
use std::path::Path;

use super::{captured, draw, drawn, graph_file, scratch, stderr};

/// Expects an exit code, and the message.
fn assert_refused(arguments: &[&str], code: i32, message: &str) {
    let output = draw(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
    assert!(stderr(&output).starts_with(&format!("lastuse: error: {message}")), "{}", stderr(&output));
}

fn read(path: &str) -> String {
    fs::read_to_string(path).expect("the picture is there")
}

#[test]
fn help_has_examples_and_exit_codes() {
    let output = draw(&["--help"]);
    let help = String::from_utf8(output.stdout).expect("the tool prints UTF-8");
    for part in [
        "Examples:\n  lastuse draw llama.jsonl -o map.html",
        "Exit codes: 0 drawn, 1 ",
        "--against",
        "--theme",
        "--buffer",
    ] {
        assert!(help.contains(part), "{part} is not in\n{help}");
    }
}

#[test]
fn ending_or_option_says_what_is_drawn() {
    let graph = captured("whisper-base-conv");
    assert!(read(&drawn(&[&graph], "kind.svg", &[])).starts_with("<svg "));
    assert!(read(&drawn(&[&graph], "kind.HTML", &[])).starts_with("<!doctype html>"));
    assert!(read(&drawn(&[&graph], "kind.txt", &["--format", "svg"])).starts_with("<svg "));
    let output = draw(&[&graph, "-o", "-", "--format", "html"]);
    assert!(output.status.success() && output.stdout.starts_with(b"<!doctype html>"));
    for name in [scratch("kind.png"), "-".to_owned()] {
        assert_refused(&[&graph, "-o", &name], 2, &format!("{name:?} ends neither in .svg nor in .html"));
    }
}

#[test]
fn output_that_cannot_be_written_is_said_before_the_graphs_are_read() {
    for output in [scratch("no such folder/map.svg"), scratch("")] {
        let arguments = ["no such graph.jsonl", "-o", &output, "--format", "svg"];
        assert_refused(&arguments, 1, &format!("{output}: cannot be written: "));
    }
}

#[test]
fn graph_that_is_wrong_keeps_no_other_from_being_drawn() {
    let (graph, path) = (captured("whisper-base-conv"), scratch("some.svg"));
    let _ = fs::remove_file(&path);
    assert_refused(&["no such graph.jsonl", "-o", &path], 1, "no such graph.jsonl: no such file");
    assert!(!Path::new(&path).exists(), "an empty picture was left behind");
    assert_refused(&["no such graph.jsonl", &graph, "-o", &path], 1, "no such graph.jsonl: no such file");
    let picture = read(&path);
    assert!(picture.contains("lastuse") && picture.ends_with("</svg>\n"));
    assert_refused(&["no such graph.jsonl", "-o", &path], 1, "no such graph.jsonl: no such file");
    assert!(read(&path) == picture, "the picture that was there is gone");
}

#[test]
fn shorter_picture_leaves_nothing_of_a_longer_one() {
    let (graph, path) = (captured("whisper-base-conv"), scratch("shorter.svg"));
    fs::write(&path, vec![b'x'; 1 << 20]).expect("the target folder can be written to");
    drawn(&[&graph], "shorter.svg", &[]);
    assert!(read(&path).ends_with("</svg>\n"));
}

#[test]
fn problems_are_not_drawn() {
    let file = scratch("blocks.csv");
    fs::write(&file, "id,lower,upper,size\n1,0,4,8\n").expect("the target folder can be written to");
    assert_refused(&[&file, "-o", &scratch("csv.svg")], 1, &format!("{file}: this is a CSV file"));
}

#[test]
fn one_buffer_can_be_drawn_alone() {
    let graph = graph_file("one-buffer.jsonl", &[("a", &[0])]);
    assert!(read(&drawn(&[&graph], "one-buffer.svg", &["--buffer", "CPU"])).contains("MiB"));
    let message = format!("{graph}: there is no buffer \"GPU\"; the graph has 0 (CPU)");
    assert_refused(&[&graph, "-o", &scratch("gpu.svg"), "--buffer", "GPU"], 1, &message);
}

#[test]
fn plans_to_draw_can_be_chosen() {
    let graph = captured("flash-v32k-llama");
    let both = read(&drawn(&[&graph], "both.svg", &[]));
    assert!(both.contains(">ggml-alloc<") && both.contains("124.5 MiB") && both.contains("−42 %"));
    let alone = read(&drawn(&[&graph], "alone.svg", &["--against", "none", "--title", "Alone & <small>"]));
    assert!(!alone.contains("ggml-alloc") && alone.contains("72.51 MiB"));
    assert!(alone.contains("<title>Alone &amp; &lt;small&gt;</title>"));
    let ggml = read(&drawn(&[&graph], "ggml.svg", &["--against", "none", "--rules", "ggml"]));
    assert!(ggml.contains("108.5 MiB") && ggml != alone);
}

#[test]
fn recomputed_graphs_are_drawn_below_the_given_one() {
    let graph = captured("train-8-512");
    for name in ["recomputed.svg", "recomputed.html"] {
        let given = read(&drawn(&[&graph], &format!("given-{name}"), &[]));
        let both = read(&drawn(&[&graph], name, &["--recompute", "55M"]));
        assert!(!given.contains(" (again)") && both.contains("node_315 (again)"), "{name}");
        assert!(both.contains(" nodes computed again to fit ") && both.len() > given.len(), "{name}");
    }
}

#[test]
fn graphs_that_cannot_be_recomputed_are_refused() {
    let graph = captured("whisper-base-conv");
    let refused = format!("{graph}: the graph has no loss");
    assert_refused(&[&graph, "-o", &scratch("no-loss.svg"), "--recompute", "50%"], 1, &refused);
    let training = captured("train-8-512");
    let refused = format!("{training}: no graph was found that fits 1048576 bytes: the smallest needs ");
    assert_refused(&[&training, "-o", &scratch("too-small.svg"), "--recompute", "1M"], 1, &refused);
}
