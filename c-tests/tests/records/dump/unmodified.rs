//! Unmodified programs under `lastuse run --dump`, and with preloaded libraries.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use lastuse_c_tests::{Linked, Outcome, Program, guard_library};
use lastuse_vendor::Package;
use serde_json::Value;

use super::folder::{Dumped, empty_folder, names_in, read_dumps};
use crate::support::{self, llama_style, tool};

/// lastuse failed before the program started.
const FAILED: i32 = 125;

fn run(arguments: &[&str]) -> Output {
    tool::command(arguments).output().expect("the tool starts")
}

fn path_of(program: &Program) -> &str {
    program.path().to_str().expect("UTF-8")
}

/// A program and how it is started.
struct Subject {
    program: Program,
    arguments: Vec<&'static str>,
    package: Package,
    /// Distinguishes the files of the test.
    label: &'static str,
}

fn language_model(package: Package, label: &'static str, allocator: &'static str) -> Subject {
    let program = llama_style::build(&format!("dumped-model{label}"), package, Linked::SharedGgml);
    Subject { program, arguments: [llama_style::SMALL, &["--allocator", allocator]].concat(), package, label }
}

fn static_graph(package: Package, label: &'static str) -> Subject {
    let ggml = support::ggml(package);
    let program = support::build(
        &format!("dumped-scheduler{label}"),
        "tests/support/plain_scheduler.c",
        &ggml,
        Linked::SharedGgml,
    );
    Subject { program, arguments: Vec::new(), package, label }
}

impl Subject {
    /// Runs it without lastuse, node by node. Returns the folder with the values of each run and node.
    fn values(&self) -> PathBuf {
        let (folder, ggml) = (empty_folder(&format!("values{}", self.label)), support::ggml(self.package));
        let name = format!("libnode_values{}.so", self.label);
        let library = support::expect(Program::build_shared(&name, &["tests/records/dump/node_values.c"], &ggml, &[]));
        let variables = [("LD_PRELOAD", library.as_os_str()), ("NODE_VALUES_DIR", folder.as_os_str())];
        let outcome = support::expect(self.program.run_with(&self.arguments, &variables));
        assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
        folder
    }

    /// Runs it with options of `lastuse run`, which dumps all tensors. Returns its output, the report and the dumps.
    fn dumped(&self, options: &[&str]) -> (String, Value, Vec<Dumped>) {
        let folder = empty_folder(&format!("dumps{}{}", self.label, options.concat()));
        let report = folder.with_extension("json");
        let [to, file] = [&folder, &report].map(|path| path.to_str().expect("UTF-8"));
        let head = ["run", "--json", "-o", file, "--dump", "*", "--dump-dir", to];
        let output = run(&[&head[..], options, &["--", path_of(&self.program)], &self.arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", tool::stderr(&output));
        let report = fs::read_to_string(&report).expect("it is written");
        let report = serde_json::from_str(&report).expect("JSON");
        (tool::stdout(&output).to_owned(), report, read_dumps(&folder))
    }

    fn output_alone(&self) -> String {
        support::passes(&self.program, &self.arguments).stdout
    }
}

/// Compares every node that no later one changes in place. Returns the number of compared nodes.
fn compare(values: &Path, dumps: &[Dumped]) -> usize {
    let nodes = dumps.iter().filter(|dumped| dumped.line["node"].is_u64() && dumped.line["changed_by"].is_null());
    let mut compared = 0;
    for dumped in nodes {
        let file = format!("{}-{}.bin", dumped.run(), dumped.line["node"]);
        let expected = fs::read(values.join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(dumped.bytes() == expected, "{} differs from {file}", dumped.line);
        compared += 1;
    }
    compared
}

fn last_run(values: &Path) -> u64 {
    let run = |name: &String| name.split('-').next().and_then(|run| run.parse().ok()).expect("a number");
    names_in(values).iter().map(run).max().expect("at least one")
}

/// Dumps all tensors of all runs: each has the value that it has when its node is computed alone, and the line that begins
/// with `prints` is that of the program without lastuse.
fn all_values_are_right(subject: &Subject, options: &[&str], prints: &str) {
    let values = subject.values();
    let (output, report, dumps) = subject.dumped(options);
    let printed = |text: &str| text.lines().find(|line| line.starts_with(prints)).map(str::to_owned);
    assert!(printed(&output).is_some(), "{output}");
    assert_eq!(printed(&output), printed(&subject.output_alone()));
    let compared = compare(&values, &dumps);
    let changed = dumps.iter().filter(|dumped| !dumped.line["changed_by"].is_null()).count();
    assert!(compared > 0 && changed <= compared, "{compared} of {}, {changed} changed", dumps.len());
    let runs = last_run(&values);
    assert_eq!(dumps.last().map(Dumped::run), Some(runs));
    let counts = ["runs", "runs_with_files", "files", "failed"].map(|key| report["dump"][key].as_u64());
    assert_eq!(counts, [Some(runs), Some(runs), Some(dumps.len() as u64), Some(0)], "{report}");
}

#[test]
fn language_model_on_a_plain_backend() {
    all_values_are_right(&language_model(Package::LlamaCpp, "-gallocr", "gallocr"), &[], "logits_hash=");
}

#[test]
fn language_model_on_a_scheduler() {
    let subject = language_model(Package::LlamaCpp, "-sched", "sched");
    all_values_are_right(&subject, &[], "logits_hash=");
    all_values_are_right(&subject, &["--verify=memory"], "logits_hash=");
}

#[test]
fn language_model_on_ggml_0_9_5() {
    all_values_are_right(&language_model(Package::WhisperCpp, "-0.9.5", "gallocr"), &[], "logits_hash=");
}

#[test]
fn static_graph_of_a_scheduler_is_dumped_after_each_run() {
    for (package, label) in [(Package::LlamaCpp, "-static"), (Package::WhisperCpp, "-static-0.9.5")] {
        let subject = static_graph(package, label);
        all_values_are_right(&subject, &[], "sum=");
        all_values_are_right(&subject, &["--verify=memory"], "sum=");
    }
}

#[test]
fn inputs_are_dumped() {
    let (_, _, dumps) = static_graph(Package::LlamaCpp, "-inputs").dumped(&[]);
    let inputs: Vec<&Dumped> = dumps.iter().filter(|dumped| dumped.line["leaf"].is_u64()).collect();
    assert_eq!(inputs.iter().map(|dumped| dumped.run()).collect::<Vec<_>>(), [1, 2]);
    let expected: Vec<u8> = (0..64 * 8u16).flat_map(|i| (f32::from(i % 5) / 8.0).to_ne_bytes()).collect();
    assert!(inputs.iter().all(|dumped| dumped.bytes() == expected));
    assert!(dumps.iter().all(|dumped| dumped.name() != "weight"), "weights are not inputs");
}

#[test]
fn report_states_how_many_arrays_are_where() {
    let (subject, folder) = (static_graph(Package::LlamaCpp, "-report"), empty_folder("report"));
    let to = folder.to_str().expect("UTF-8");
    let output = run(&["run", "--dump", "doubled", "--dump-dir", to, "--", path_of(&subject.program)]);
    let expected = format!("dump: 2 arrays of 2 runs in {to}: each run has an index.jsonl\n");
    assert!(tool::stderr(&output).ends_with(&expected), "{}", tool::stderr(&output));
    assert_eq!(read_dumps(&folder).len(), 2);
    assert_eq!(names_in(&folder.join("run-00002")), ["index.jsonl", "node-00001-doubled.npy"]);
}

#[test]
fn nothing_that_matches_is_reported_with_similar_names() {
    let (subject, folder) = (static_graph(Package::LlamaCpp, "-none"), empty_folder("none"));
    let to = folder.to_str().expect("UTF-8");
    let output = run(&["run", "--dump", "dubled*", "--dump-dir", to, "--", path_of(&subject.program)]);
    assert_eq!(output.status.code(), Some(0));
    let expected = "dump: no tensor was dumped: \"dubled*\" matches none in 2 runs; names are, for example: doubled, ";
    assert!(tool::stderr(&output).contains(expected), "{}", tool::stderr(&output));
    assert_eq!(names_in(&folder), [""; 0]);
    let output = run(&["run", "--dump", "x", "--dump-dir", to, "--", "true"]);
    assert!(tool::stderr(&output).contains("the program computed no graph"), "{}", tool::stderr(&output));
}

#[test]
fn wrong_options_are_reported_before_the_program_starts() {
    let folder = empty_folder("wrong");
    fs::write(folder.join("file"), "of another run").expect("it can be written");
    let [to, touched] = [folder.clone(), folder.with_extension("touched")];
    let [to, touched] = [to.to_str().expect("UTF-8"), touched.to_str().expect("UTF-8")];
    for (options, message) in [
        (["--dump", "a,,b", "--dump-dir", to], "lastuse: error: --dump: pattern 2 of \"a,,b\" is empty"),
        (["--dump", " ", "--dump-dir", to], "lastuse: error: --dump: no names of tensors"),
        (["--dump", "a", "--retain", "b,"], "lastuse: error: --retain: pattern 2 of \"b,\" is empty"),
        (["--dump", "a", "--dump-dir", to], "is not empty"),
        (["--dump", "a", "--dump-dir", "/dev/null/x"], "/dev/null/x: cannot be written: "),
    ] {
        let output = run(&[&["run"], &options[..], &["--", "touch", touched]].concat());
        assert_eq!(output.status.code(), Some(FAILED), "{options:?}: {}", tool::stderr(&output));
        assert!(tool::stderr(&output).contains(message), "{options:?}: {}", tool::stderr(&output));
    }
    for options in [["--dump-dir", to].as_slice(), &["--off", "--dump", "a"], &["--off", "--retain", "a"]] {
        let output = run(&[&["run"], options, &["--", "touch", touched]].concat());
        assert_eq!(output.status.code(), Some(FAILED), "{options:?}");
    }
    assert!(!Path::new(touched).exists());
}

#[test]
fn retained_tensors_take_memory_and_change_no_result() {
    let subject = language_model(Package::LlamaCpp, "-retained", "gallocr");
    let bytes_and_hash = |options: &[&str]| {
        let output = run(&[&["run"], options, &["--", path_of(&subject.program)], &subject.arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", tool::stderr(&output));
        let value = |key: &str| {
            let line = tool::stdout(&output).lines().find_map(|line| line.strip_prefix(key)).expect("it is printed");
            line.to_owned()
        };
        let bytes: u64 = value("compute_buffer_bytes=").parse().expect("a number");
        (bytes, value("logits_hash="))
    };
    let ((without, hash), (with, same_hash)) = (bytes_and_hash(&[]), bytes_and_hash(&["--retain", "*"]));
    assert!(with > without, "{with} and {without}");
    assert_eq!(hash, same_hash);
}

/// Runs the static graph with both libraries preloaded and these variables.
fn preloaded(pattern: &str, folder: &OsStr) -> Outcome {
    run_preloaded(&static_graph(Package::LlamaCpp, "-preloaded").program, &[], pattern, folder)
}

fn run_preloaded(program: &Program, arguments: &[&str], pattern: &str, folder: &OsStr) -> Outcome {
    let mut libraries: OsString = support::release().shared.into_os_string();
    libraries.push(":");
    libraries.push(support::expect(guard_library()));
    let variables =
        [("LD_PRELOAD", libraries.as_os_str()), ("LASTUSE_DUMP", OsStr::new(pattern)), ("LASTUSE_DUMP_DIR", folder)];
    let outcome = support::expect(program.run_with(arguments, &variables));
    assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
    outcome
}

#[test]
fn environment_enables_dumps_and_keeps_earlier_ones() {
    let folder = empty_folder("environment");
    for runs in [2, 4] {
        preloaded("doubled", folder.as_os_str());
        assert_eq!(read_dumps(&folder).iter().map(Dumped::run).collect::<Vec<_>>(), (1..=runs).collect::<Vec<_>>());
    }
    preloaded("", folder.as_os_str());
    assert_eq!(names_in(&folder).len(), 4, "no names");
}

/// The plugin brings a ggml with it that only the plugin can see.
#[test]
fn graphs_of_a_ggml_that_is_loaded_later_are_dumped() {
    let ggml = support::ggml(Package::LlamaCpp);
    let libraries = ggml.libraries.display();
    let flags = [format!("-L{libraries}"), format!("-Wl,-rpath,{libraries}")];
    let flags = ["-DPLUGIN", "-Dmain=run_scheduler", &flags[0], &flags[1], "-lggml-cpu", "-lggml-base"];
    let plugin = Program::build_shared("libplain_scheduler.so", &["tests/support/plain_scheduler.c"], &ggml, &flags);
    let plugin = support::expect(plugin).to_string_lossy().into_owned();
    let program = support::build("dumped-plugin", "tests/support/load_plugin.c", &ggml, Linked::Ggml);
    let folder = empty_folder("plugin");
    run_preloaded(&program, &[&plugin], "doubled", folder.as_os_str());
    assert_eq!(read_dumps(&folder).len(), 2);
}

#[test]
fn wrong_environment_is_reported_and_has_no_effect() {
    let folder = empty_folder("wrong-environment");
    let outcome = preloaded("a,,b", folder.as_os_str());
    assert!(outcome.stderr.contains("LASTUSE_DUMP has no effect: pattern 2 of \"a,,b\""), "{}", outcome.describe());
    let outcome = preloaded("a", OsStr::new("/dev/null/x"));
    let message = "LASTUSE_DUMP has no effect: cannot write to the folder /dev/null/x: ";
    assert!(outcome.stderr.contains(message), "{}", outcome.describe());
    assert_eq!(names_in(&folder), [""; 0]);
}
