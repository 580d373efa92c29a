//! The output and exit codes of `lastuse run` and `lastuse compare` on real programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support;
use crate::support::llama_style;
use crate::support::tool::{self, command};
use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::{Package, target_folder};
use serde_json::Value;

/// lastuse failed before the program started.
const FAILED: i32 = 125;

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the tool starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

fn folder(test: &str) -> PathBuf {
    let folder = target_folder().join("c-tests/run-tool-files").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the target folder can be written to");
    folder
}

/// An unmodified language model on a shared ggml.
fn model() -> &'static str {
    static MODEL: OnceLock<Program> = OnceLock::new();
    let build = || llama_style::build("run-tool", Package::LlamaCpp, Linked::SharedGgml);
    MODEL.get_or_init(build).path().to_str().expect("a path in UTF-8")
}

/// The program's command line behind the tool's.
fn before_model<'a>(arguments: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [arguments, &["--", model()], llama_style::SMALL, more].concat()
}

fn value<'a>(text: &'a str, key: &str) -> &'a str {
    let found = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("no {key} in {text}"))
}

fn json(output: &Output) -> Value {
    tool::report(output)
}

fn bytes_of(report: &Value) -> u64 {
    report["allocators"][0]["buffers"][0]["bytes"].as_u64().expect("a number of bytes")
}

#[test]
fn program_keeps_its_results_and_its_memory_is_reported() {
    let with = run(&before_model(&["run", "--json"], &[]));
    let without = run(&before_model(&["run", "--off", "--json"], &[]));
    let mut handed_back = command(&before_model(&["run", "--json"], &[]));
    let handed_back = handed_back.env("LASTUSE", "Off").output().expect("the tool starts");
    assert_eq!(value(&stdout(&handed_back), "allocator"), "ggml", "{}", stderr(&handed_back));
    assert_eq!(json(&handed_back)["server"], "ggml-alloc");
    assert!(stderr(&handed_back).contains("LASTUSE=off is set"), "{}", stderr(&handed_back));
    let alone = run(&before_model(&["run", "--json", "--library", "/nonexistent"], &[]));
    assert_eq!(alone.status.code(), Some(FAILED), "{}", stderr(&alone));
    assert_eq!(
        [with.status.code(), without.status.code()],
        [Some(0), Some(0)],
        "{}{}",
        stderr(&with),
        stderr(&without)
    );
    let hash = value(&stdout(&with), "logits_hash").to_owned();
    assert_eq!(hash, value(&stdout(&without), "logits_hash"));
    assert!(value(&stdout(&with), "allocator").starts_with("lastuse "));
    assert_eq!(value(&stdout(&without), "allocator"), "ggml");

    let (lastuse, ggml) = (json(&with), json(&without));
    assert_eq!(bytes_of(&lastuse).to_string(), value(&stdout(&with), "compute_buffer_bytes"));
    assert_eq!(bytes_of(&ggml).to_string(), value(&stdout(&without), "compute_buffer_bytes"));
    let buffer = &lastuse["allocators"][0]["buffers"][0];
    assert_eq!(
        buffer["ggml_alloc"].as_u64(),
        Some(bytes_of(&ggml)),
        "what ggml-alloc would have taken is what it takes"
    );
    assert!(buffer["lower_bound"].as_u64().is_some_and(|bound| bound <= bytes_of(&lastuse)), "{lastuse}");
    assert!(bytes_of(&lastuse) < bytes_of(&ggml));
    assert!(lastuse["allocators"][0]["plans"].as_u64() > Some(0), "{lastuse}");
    assert_eq!([&lastuse["server"], &ggml["server"]], ["lastuse", "ggml-alloc"]);
    assert_eq!(lastuse["exit_code"], 0);
    assert!(lastuse["peak_resident_bytes"].as_u64() > Some(bytes_of(&lastuse)), "{lastuse}");
}

#[test]
fn graphs_of_an_unmodified_program_get_a_better_order() {
    let program = support::build(
        "run-tool-order",
        "tests/support/plain_allocator.c",
        &support::ggml(Package::LlamaCpp),
        Linked::SharedGgml,
    );
    let path = program.path().to_str().expect("a path in UTF-8");
    let [given, ordered] = [&["run", "--json"][..], &["run", "--json", "--reorder"]]
        .map(|arguments| run(&[arguments, &["--", path]].concat()));
    let [sum, other] = [&given, &ordered].map(|output| value(&stdout(output), "sum").to_owned());
    assert_eq!(sum, other, "{}", stderr(&ordered));
    let (given, ordered) = (json(&given), json(&ordered));
    assert!(bytes_of(&ordered) * 5 < bytes_of(&given) * 3, "{ordered}");
    let [by_ggml, of_given_order] =
        [&given, &ordered].map(|report| report["allocators"][0]["buffers"][0]["ggml_alloc"].as_u64());
    assert!(by_ggml.is_some() && by_ggml == of_given_order, "ggml-alloc runs the program's order: {ordered}");
    assert_eq!(ordered["allocators"][0]["plans"].as_u64(), Some(1), "the graph that is built again needs no plan");
}

#[test]
fn table_has_the_bytes_of_the_program() {
    let output = run(&before_model(&["run", "--report", "--bytes"], &[]));
    let bytes = value(&stdout(&output), "compute_buffer_bytes").to_owned();
    let table = stderr(&output);
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].starts_with("lastuse: ") && lines[0].contains("exited normally") && lines[0].contains("ggml 0.26"),
        "{table}"
    );
    let buffers = lines.iter().position(|line| line.starts_with("allocator  buffer")).expect("a table");
    let row: Vec<&str> = lines[buffers + 1].split_whitespace().collect();
    assert_eq!(row[..4], ["1", "0", "CPU", bytes.as_str()], "{table}");
}

#[test]
fn the_report_can_go_to_a_file() {
    let file = folder("output").join("report.json");
    let output = run(&before_model(&["run", "--json", "-o", file.to_str().expect("UTF-8")], &[]));
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let text = fs::read_to_string(&file).expect("it was written");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert!(bytes_of(&report) > 0);
}

#[test]
fn graphs_are_captured_and_drawn() {
    let folder = folder("captures");
    let (graphs, page) = (folder.join("graphs"), folder.join("memory.html"));
    let paths = [&graphs, &page].map(|path| path.to_str().expect("UTF-8"));
    let page_option = format!("--accounting={}", paths[1]);
    let output = run(&before_model(&["run", "--json", "--capture", paths[0], &page_option], &[]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let files = fs::read_dir(&graphs).expect("it was made").map(|file| file.expect("it can be read").path());
    let sizes = files.map(|file| {
        let planned = run(&["plan", "--json", file.to_str().expect("UTF-8")]);
        let plan: Value = serde_json::from_str(&stdout(&planned)).expect("JSON");
        plan["buffers"][0]["size"].as_u64()
    });
    assert_eq!(sizes.max().flatten(), Some(bytes_of(&json(&output))), "the plan that the program used");
    let text = fs::read_to_string(&page).expect("it was drawn");
    assert!(text.starts_with("<!") && text.contains("kv_rows"), "{}", &text[..200]);
}

#[test]
fn captures_can_be_compressed_and_drawn() {
    let folder = folder("compressed");
    let (names, page) = (folder.join("graphs/%s.jsonl.gz"), folder.join("memory.html"));
    let paths = [&names, &page].map(|path| path.to_str().expect("UTF-8"));
    let page_option = format!("--accounting={}", paths[1]);
    let output = run(&before_model(&["run", "--capture", paths[0], &page_option], &[]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let files: Vec<PathBuf> =
        fs::read_dir(folder.join("graphs")).expect("it was made").flatten().map(|file| file.path()).collect();
    assert!(!files.is_empty() && files.iter().all(|file| file.to_string_lossy().ends_with(".jsonl.gz")), "{files:?}");
    assert!(fs::read_to_string(&page).is_ok_and(|text| text.contains("kv_rows")));
}

/// The program hands a function to ggml that writes into a weight.
#[test]
fn operations_that_write_elsewhere_are_named() {
    let build =
        |ggml| Program::build("run-tool-fault", &["tests/support/plain_scheduler.c"], ggml, Linked::SharedGgml, &[]);
    let program = support::expect(build(&support::ggml(Package::LlamaCpp)));
    let path = program.path().to_str().expect("UTF-8");
    for verify in ["--verify", "--verify=plan", "--verify=memory"] {
        let output = run(&["run", verify, "--", path]);
        assert_eq!(output.status.code(), Some(0), "{verify}: {}", stderr(&output));
    }
    let output = run(&["run", "--verify=memory", "--", path, "fault"]);
    assert_eq!(output.status.code(), Some(128 + 6), "{}", stderr(&output));
    assert!(stderr(&output).contains("\"doubled\" (MAP_CUSTOM1)"), "{}", stderr(&output));
    assert_eq!(run(&["run", "--verify=everything", "--", path]).status.code(), Some(125));
}

#[test]
fn unwritable_output_is_reported_before_the_program_starts() {
    let folder = folder("unwritable");
    let touched = folder.join("touched");
    for option in ["--output=/nonexistent/report.txt", "--accounting=/nonexistent/map.html", "--capture=/dev/null/x"] {
        let touch = ["--", "touch", touched.to_str().expect("UTF-8")];
        let output = run(&[&["run", option], &touch[..]].concat());
        assert_eq!(output.status.code(), Some(FAILED), "{option:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(": cannot be written: "), "{}", stderr(&output));
        assert!(!touched.exists(), "{option:?}");
    }
}

#[test]
fn static_ggml_is_reported_with_advice() {
    let program = llama_style::build("run-tool-static", Package::LlamaCpp, Linked::Ggml);
    for command in ["run", "compare"] {
        let output = run(&[command, "--", program.path().to_str().expect("UTF-8")]);
        assert_eq!(output.status.code(), Some(FAILED), "{}", stderr(&output));
        assert!(stderr(&output).contains("ggml is linked into it statically"), "{}", stderr(&output));
        assert!(stderr(&output).contains("liblastuse.a before libggml-base.a"), "{}", stderr(&output));
    }
}

#[test]
fn a_program_with_lastuse_inside_needs_no_library() {
    let lastuse = support::release();
    let program = llama_style::build("run-tool-inside", Package::LlamaCpp, Linked::LastuseArchive(&lastuse));
    let path = program.path().to_str().expect("UTF-8");
    let output = run(&[&["run", "--json", "--library", "/nonexistent", "--", path], llama_style::SMALL].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(bytes_of(&json(&output)).to_string(), value(&stdout(&output), "compute_buffer_bytes"));
}

#[test]
fn program_without_ggml_is_reported() {
    let output = run(&["run", "--", "true"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("the program never used a ggml allocator"), "{}", stderr(&output));
    let failed = run(&["run", "--", "false"]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(
        stderr(&failed).contains("s, before it planned a graph of ggml: see its messages above\n"),
        "{}",
        stderr(&failed)
    );
    let output = run(&["compare", "--runs", "1", "--", "true"]);
    assert_eq!(output.status.code(), Some(FAILED));
    assert!(stderr(&output).contains("the program never used a ggml allocator"), "{}", stderr(&output));
}

#[test]
fn exit_codes_are_those_of_the_program() {
    let shell = |script: &str| run(&["run", "--", "sh", "-c", script]).status.code();
    assert_eq!(shell("exit 7"), Some(7));
    assert_eq!(shell("kill -9 $$"), Some(128 + 9));
    assert_eq!(run(&["run", "--", "no-such-program-anywhere"]).status.code(), Some(127));
    let file = folder("codes").join("data.txt");
    fs::write(&file, "no program").expect("it can be written");
    let name = file.to_str().expect("UTF-8");
    let output = run(&["run", "--", name]);
    assert_eq!(output.status.code(), Some(126), "{}", stderr(&output));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("mine");
    assert_eq!(run(&["run", "--", name]).status.code(), Some(126), "no interpreter");
    assert_eq!(run(&["run"]).status.code(), Some(125));
}

#[test]
fn unknown_word_is_reported_before_the_program_starts() {
    let output = run(&["run", "--rules", "everything", "--", "true"]);
    assert_eq!(output.status.code(), Some(FAILED));
    assert!(stderr(&output).starts_with("lastuse: error: --rules: "), "{}", stderr(&output));
}

#[test]
fn rules_and_effort_reach_the_program() {
    let bytes = |options: &[&str]| {
        let output = run(&before_model(&[&["run", "--json"], options].concat(), &[]));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        bytes_of(&json(&output))
    };
    let (all, ggml) = (bytes(&[]), bytes(&["--rules", "ggml", "--effort", "1000"]));
    assert!(all < ggml, "{all} and {ggml}");
}

#[test]
fn a_signal_to_the_tool_ends_the_program() {
    let mut child = command(&["run", "--", "sleep", "600"]).stderr(Stdio::piped()).spawn().expect("the tool starts");
    let start = Instant::now();
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    while fs::read_to_string(&children).is_ok_and(|text| text.trim().is_empty()) && start.elapsed().as_secs() < 30 {
        sleep(Duration::from_millis(20));
    }
    let sleeper = fs::read_to_string(&children).expect("it has started").trim().to_owned();
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill is there");
    assert!(killed.success());
    let status = child.wait().expect("it ends");
    assert_eq!((status.code(), status.signal()), (Some(128 + 15), None));
    assert!(!Path::new(&format!("/proc/{sleeper}/stat")).exists(), "the program goes on");
}

#[test]
fn compare_gives_medians_and_ratios() {
    let output = run(&before_model(&["compare", "--runs", "2"], &[]));
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let table = stdout(&output);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].ends_with(": 2 runs each, medians; ratios are lastuse / ggml-alloc (lower is better)"), "{table}");
    assert!(lines[2].starts_with("compute buffers, bytes"), "{table}");
    assert_eq!(lines.len(), 5, "{table}");
    let single = run(&before_model(&["compare", "--runs", "1"], &[]));
    assert!(stdout(&single).contains(": 1 run each; ratios are "), "{}", stdout(&single));

    let output = run(&before_model(&["compare", "--runs", "2", "--json"], &[]));
    let all: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let samples = |server: &str, what: &str| all[server][what].as_array().expect("samples").clone();
    for server in ["ggml_alloc", "lastuse"] {
        for what in ["buffer_bytes", "peak_resident_bytes", "seconds"] {
            assert_eq!(samples(server, what).len(), 2, "{all}");
        }
    }
    assert!(samples("lastuse", "buffer_bytes")[0].as_u64() < samples("ggml_alloc", "buffer_bytes")[0].as_u64());
}

#[test]
fn compare_reports_why_a_program_failed() {
    let output = run(&["compare", "--", "sh", "-c", "echo it was me >&2; exit 3"]);
    assert_eq!(output.status.code(), Some(FAILED));
    assert!(stderr(&output).contains("it was me") && stderr(&output).contains("exit status: 3"), "{}", stderr(&output));
}
