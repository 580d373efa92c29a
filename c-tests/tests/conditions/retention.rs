//! Tensors that are retained by the environment, in a program that knows nothing of lastuse, and by the tool.

use std::ffi::OsStr;
use std::fs;
use std::process::Output;

use crate::support;
use crate::support::tool::{self, assert_fails_with, stderr, stdout};
use lastuse_c_tests::{Linked, Outcome, Program};
use lastuse_vendor::{Package, target_folder};

/// Bytes of each of its six results.
const VALUE: usize = 4096;

fn program(package: Package) -> Program {
    let name = format!("reads_intermediate-{package:?}");
    support::build(&name, "tests/conditions/reads_intermediate.c", &support::ggml(package), Linked::SharedGgml)
}

/// Runs the program with lastuse preloaded.
fn run(program: &Program, variables: &[(&str, &str)]) -> Outcome {
    let library = support::checked().shared;
    let preloaded = [("LD_PRELOAD", library.as_os_str())].into_iter();
    let variables: Vec<(&str, &OsStr)> =
        preloaded.chain(variables.iter().map(|&(name, value)| (name, OsStr::new(value)))).collect();
    let outcome = support::expect(program.run_with(&[], &variables));
    assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
    outcome
}

/// Asserts which values are there after the run, and how many the compute buffer has room for.
fn assert_held(outcome: &Outcome, held: &str, values: usize) {
    let bytes = (values * VALUE).to_string();
    assert_eq!((outcome.value("held"), outcome.value("bytes")), (Some(held), Some(&*bytes)), "{}", outcome.describe());
}

fn environment_retains(package: Package) {
    let program = program(package);
    assert_held(&run(&program, &[]), "000001", 1);
    assert_held(&run(&program, &[("LASTUSE_RETAIN", "")]), "000001", 1);
    assert_held(&run(&program, &[("LASTUSE_RETAIN", "hidden-2")]), "001001", 2);
    assert_held(&run(&program, &[("LASTUSE_RETAIN", "hidden-1, *-3")]), "010101", 3);
    assert_held(&run(&program, &[("LASTUSE_RETAIN", "*")]), "111111", 7);
    assert_held(&run(&program, &[("LASTUSE_RETAIN", "*"), ("LASTUSE", "off")]), "000001", 1);
    assert_held(&run(&program, &[("LASTUSE_RETAIN", "hidden-*"), ("LASTUSE_VERIFY", "memory")]), "111111", 6);
}

#[test]
fn environment_retains_on_ggml_0_26() {
    environment_retains(Package::LlamaCpp);
}

#[test]
fn environment_retains_on_ggml_0_9_5() {
    environment_retains(Package::WhisperCpp);
}

#[test]
fn wrong_environment_is_reported_and_has_no_effect() {
    let outcome = run(&program(Package::LlamaCpp), &[("LASTUSE_RETAIN", "hidden-*,,x")]);
    assert_held(&outcome, "000001", 1);
    let message = "LASTUSE_RETAIN has no effect: pattern 2 of \"hidden-*,,x\" is empty";
    assert!(outcome.stderr.contains(message), "{}", outcome.describe());
}

/// Runs the program with these names to retain, and returns the file of its graph.
fn captured(test: &str, names: &str) -> String {
    let folder = target_folder().join("c-tests/retention").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the target folder can be written to");
    let place = folder.to_str().expect("the target folder has a name in UTF-8").to_owned();
    run(&program(Package::LlamaCpp), &[("LASTUSE_RETAIN", names), ("LASTUSE_CAPTURE", &place)]);
    let file = fs::read_dir(&folder).expect("the folder is there").next().expect("a graph is captured");
    file.expect("the folder can be read").path().to_str().expect("UTF-8").to_owned()
}

fn run_tool(arguments: &[&str]) -> Output {
    tool::command(arguments).output().expect("the tool starts")
}

/// Exit code 0, no messages, and the output.
fn printed(arguments: &[&str]) -> String {
    let output = run_tool(arguments);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{arguments:?}");
    stdout(&output).to_owned()
}

/// The bytes of the plan of a graph, with further arguments.
fn planned(file: &str, arguments: &[&str]) -> u64 {
    let json = printed(&[&["plan", "--json", file], arguments].concat());
    let plan: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    plan["buffers"].as_array().expect("a list").iter().map(|buffer| buffer["size"].as_u64().expect("bytes")).sum()
}

#[test]
fn captured_graph_is_planned_with_what_it_retains() {
    let file = captured("recorded", "hidden-1,hidden-3");
    let value = VALUE as u64;
    assert_eq!(planned(&file, &[]), 3 * value);
    assert_eq!(planned(&file, &["--retain", ""]), value);
    assert_eq!(planned(&file, &["--retain", "hidden-*"]), 6 * value);
    assert_eq!(planned(&file, &["--retain", "*"]), 7 * value);
    let output = run_tool(&["plan", "--retain", "nothing", &file]);
    let notice =
        "lastuse: --retain: no tensor has a name like \"nothing\"; names are, for example: input, hidden-0, hidden-1\n";
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), notice));
}

#[test]
fn retained_tensors_are_explained() {
    let text = printed(&["explain", &captured("explained", "hidden-1,hidden-3")]);
    for part in ["\"hidden-1\"", "retained to the end", "2 tensors are retained: retain fewer"] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    let json = printed(&["explain", "--json", &captured("explained-json", "hidden-1")]);
    assert!(json.contains("\"kept\":\"retained\""), "{json}");
    let without = printed(&["explain", "--retain", "", &captured("explained-without", "hidden-1")]);
    assert!(!without.contains("retained"), "{without}");
}

#[test]
fn retained_tensors_are_drawn() {
    let file = captured("drawn", "hidden-1");
    let svg = printed(&["draw", &file, "-o", "-", "--format", "svg"]);
    assert!(svg.contains(">retained for the program</text>") && svg.contains(", retained</title>"), "{svg}");
    let without = printed(&["draw", &file, "-o", "-", "--format", "svg", "--retain", ""]);
    assert!(!without.contains("retained for the program"), "{without}");
    assert!(printed(&["draw", &file, "-o", "-", "--format", "html"]).contains("\"retained\":["));
}

/// The plan of the graph without retention loses the retained values.
#[test]
fn plan_that_loses_a_retained_tensor_is_wrong() {
    let file = captured("checked", "hidden-1");
    let folder = target_folder().join("c-tests/retention/plans");
    fs::create_dir_all(&folder).expect("the target folder can be written to");
    for (names, code) in [("hidden-1", 0), ("", 3)] {
        let plan = folder.join(format!("{names}.json"));
        fs::write(&plan, printed(&["plan", "--json", "--retain", names, &file])).expect("it can be written");
        let output = run_tool(&["check", &file, plan.to_str().expect("UTF-8")]);
        assert_eq!(output.status.code(), Some(code), "{names:?}: {}{}", stdout(&output), stderr(&output));
        assert_eq!(stdout(&output).contains("is retained to the end, but"), code == 3, "{}", stdout(&output));
    }
}

#[test]
fn wrong_names_are_reported() {
    let file = captured("wrong-names", "hidden-1");
    let output = run_tool(&["plan", "--retain", "a,,b", &file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("pattern 2 of \"a,,b\" is empty"), "{}", stderr(&output));
    let csv = target_folder().join("c-tests/retention/blocks.csv");
    fs::write(&csv, "id,lower,upper,size\na,0,1,32\n").expect("the target folder can be written to");
    let csv = csv.to_str().expect("UTF-8");
    let output = run_tool(&["plan", "--retain", "*", csv]);
    assert_fails_with(
        2,
        &output,
        &format!("{csv}: --retain is for graphs; the blocks of a CSV file have the live ranges of their rows"),
    );
}
