//! What `lastuse run` says at the end of programs that it did not serve, or that leave processes behind.

use std::fs;
use std::path::PathBuf;
use std::process::Output;
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support;
use crate::support::llama_style;
use crate::support::tool::{command, stderr};
use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::{Package, target_folder};
use serde_json::Value;

/// lastuse failed, or the program did.
const FAILED: i32 = 125;

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the tool starts")
}

/// An unmodified language model on a shared ggml.
fn model() -> &'static str {
    static MODEL: OnceLock<Program> = OnceLock::new();
    let build = || llama_style::build("run-end-model", Package::LlamaCpp, Linked::SharedGgml);
    MODEL.get_or_init(build).path().to_str().expect("a path in UTF-8")
}

#[test]
fn nothing_to_verify_is_no_early_end() {
    let output = run(&["run", "--verify", "--", "true"]);
    assert!(
        stderr(&output).ends_with("verification: no graph was planned, so nothing was verified\n"),
        "{}",
        stderr(&output)
    );
}

/// The layout is said in the log once, whatever is called, and the exit line knows it.
#[test]
fn reason_why_lastuse_does_not_serve_a_ggml_is_reported() {
    let ggml = support::expect(lastuse_vendor::ggml_with_another_layout(Package::LlamaCpp));
    let program = Program::build_on_base("run-tool-layout", &["tests/support/plan_two_graphs.c"], &ggml, None);
    let program = support::expect(program);
    let path = program.path().to_str().expect("a path in UTF-8");
    let output = run(&["run", "--verify", "--", path]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("unknown offset")).collect();
    let [logged, reported] = lines.as_slice() else { panic!("{text}") };
    assert!(logged.contains(&ggml.version) && logged.ends_with("; ggml's own allocator does the work"), "{text}");
    assert!(reported.starts_with("lastuse: ggml's own allocator does the work: ggml "), "{text}");
    assert!(!text.contains("did not run to its end") && !text.contains("that lastuse does not know"), "{text}");
    let report = run(&["run", "--json", "-o", "/dev/stdout", "--", path]);
    let line = support::tool::stdout(&report).lines().last().unwrap_or_default().to_owned();
    let report: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    assert_eq!(report["not_served"].as_array().map(Vec::len), Some(1), "{report}");
    let compared = run(&["compare", "--runs", "1", "--", path]);
    assert_eq!(compared.status.code(), Some(FAILED), "{}", stderr(&compared));
    assert!(stderr(&compared).contains("unknown offset"), "{}", stderr(&compared));
}

#[test]
fn calls_that_pass_lastuse_by_are_reported_with_their_reason() {
    let ggml = support::ggml(Package::LlamaCpp);
    let program = support::build("run-tool-dlsym", "tests/support/dlsym_functions.c", &ggml, Linked::SharedGgml);
    let library = ggml.libraries.join("libggml-base.so");
    let paths = [program.path(), library.as_path()].map(|path| path.to_str().expect("a path in UTF-8"));
    let output = run(&["run", "--", paths[0], paths[1]]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let reason = "the program has looked up ggml_gallocr_new in ggml's library\n";
    assert!(stderr(&output).contains(reason), "{}", stderr(&output));
}

/// A program that leaves a process behind: its report goes on, and its log has no error.
#[test]
fn processes_that_outlive_the_program_keep_their_report() {
    let folder = target_folder().join("c-tests/run-end");
    fs::create_dir_all(&folder).expect("the target folder can be written to");
    let log = folder.join("log.txt");
    let script = format!("(sleep 2; {} {}) >{} 2>&1 &", model(), llama_style::SMALL.join(" "), log.display());
    let output = run(&["run", "--", "sh", "-c", &script]);
    let text = stderr(&output);
    let kept = text.lines().find_map(|line| Some(line.split_once("still run")?.1.split_once(" to ")?.1));
    let kept = PathBuf::from(kept.and_then(|rest| rest.split(',').next()).unwrap_or_else(|| panic!("{text}")));
    let start = Instant::now();
    let has_ended = || fs::read_to_string(&log).is_ok_and(|text| text.contains("logits_hash"));
    while !has_ended() && start.elapsed().as_secs() < 60 {
        sleep(Duration::from_millis(50));
    }
    let log = fs::read_to_string(&log).expect("it is there");
    assert!(log.contains("logits_hash") && !log.contains("has no effect"), "{log}");
    let events = fs::read_to_string(kept.join("events-0.jsonl")).expect("the folder is there");
    assert!(events.contains("\"event\":\"plan\""), "{events}");
    fs::remove_dir_all(&kept).expect("it is there");
}
