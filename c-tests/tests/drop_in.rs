//! A real program on lastuse in each of the three ways, and without it.

mod support;

use std::ffi::OsStr;

use lastuse_c_tests::{Linked, Outcome, Program};
use lastuse_vendor::Package;

/// A small model: these tests are about who does the work, not about size.
const SMALL: &[&str] = &[
    "--layers",
    "3",
    "--width",
    "256",
    "--heads",
    "8",
    "--kv-heads",
    "2",
    "--ffn",
    "1024",
    "--vocab",
    "1000",
    "--prompt",
    "64",
    "--decode",
    "4",
    "--threads",
    "1",
    "--machine",
];

fn llama_style(name: &str, linked: Linked<'_>) -> Program {
    let ggml = support::ggml(Package::LlamaCpp);
    Program::build(name, &["llama_style.c"], &ggml, linked, &[]).unwrap_or_else(|error| panic!("{error}"))
}

fn run(program: &Program, mode: &[&str], variables: &[(&str, &OsStr)]) -> Outcome {
    let outcome = program.run_with(&[SMALL, mode].concat(), variables).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
    outcome
}

/// The same bits as on ggml's own allocator, in less memory, and by lastuse's plans.
fn assert_lastuse_did_it(outcome: &Outcome, mode: &[&str]) {
    let reference = run(&llama_style("llama-style-reference", Linked::Ggml), mode, &[]);
    assert_eq!(reference.value("allocator"), Some("ggml"));
    assert!(outcome.value("allocator").is_some_and(|name| name.starts_with("lastuse")), "{}", outcome.describe());
    assert_eq!(outcome.value("logits_hash"), reference.value("logits_hash"), "the logits differ");
    let plans: u64 = number(outcome, "plans");
    assert!(plans > 0, "lastuse made no plan");
    assert!(number(outcome, "compute_buffer_bytes") < number(&reference, "compute_buffer_bytes"));
}

fn number(outcome: &Outcome, key: &str) -> u64 {
    let value = outcome.value(key).and_then(|value| value.parse().ok());
    value.unwrap_or_else(|| panic!("no {key}: {}", outcome.describe()))
}

#[test]
fn static_library_before_ggml() {
    let lastuse = support::release();
    let program = llama_style("llama-style-static", Linked::LastuseArchive(&lastuse));
    for mode in [["--allocator", "gallocr"], ["--allocator", "sched"]] {
        assert_lastuse_did_it(&run(&program, &mode, &[]), &mode);
    }
}

#[test]
fn shared_library_before_shared_ggml() {
    let lastuse = support::release();
    let program = llama_style("llama-style-shared", Linked::LastuseShared(&lastuse));
    for mode in [["--allocator", "gallocr"], ["--allocator", "sched"]] {
        assert_lastuse_did_it(&run(&program, &mode, &[]), &mode);
    }
}

#[test]
fn preloaded_over_shared_ggml() {
    let lastuse = support::release();
    let program = llama_style("llama-style-preloaded", Linked::SharedGgml);
    let preload = [("LD_PRELOAD", lastuse.shared.as_os_str())];
    for mode in [["--attention", "softmax"], ["--allocator", "sched"]] {
        assert_lastuse_did_it(&run(&program, &mode, &preload), &mode);
    }
}

#[test]
fn switched_off_hands_every_call_to_ggml() {
    let lastuse = support::release();
    let program = llama_style("llama-style-off", Linked::SharedGgml);
    let variables = [("LD_PRELOAD", lastuse.shared.as_os_str()), ("LASTUSE", OsStr::new("off"))];
    let off = run(&program, &[], &variables);
    let plain = run(&program, &[], &[]);
    assert_eq!(off.value("allocator"), Some("ggml"));
    assert_eq!(number(&off, "plans"), 0);
    for key in ["compute_buffer_bytes", "logits_hash"] {
        assert_eq!(off.value(key), plain.value(key));
    }
}

#[test]
fn preloaded_into_a_program_without_ggml_changes_nothing() {
    let lastuse = support::release();
    let output = std::process::Command::new("sh").args(["-c", "echo fine"]).env("LD_PRELOAD", &lastuse.shared).output();
    let output = output.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        (output.status.code(), output.stdout.as_slice(), output.stderr.as_slice()),
        (Some(0), &b"fine\n"[..], &b""[..])
    );
}

/// A plugin brings ggml with it, and nobody but the plugin can see that ggml.
#[test]
fn preloaded_under_a_ggml_that_is_loaded_later() {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::release());
    let libraries = ggml.libraries.display();
    let flags = [format!("-L{libraries}"), format!("-Wl,-rpath,{libraries}")];
    let flags = ["-Dmain=plan_graphs", &flags[0], &flags[1], "-lggml-base"];
    let plugin = Program::build_shared("libplan_graphs.so", &["programs/plan_two_graphs.c"], &ggml, &flags);
    let plugin = support::expect(plugin).to_string_lossy().into_owned();
    let program = support::expect(Program::build("load-plugin", &["programs/load_plugin.c"], &ggml, Linked::Ggml, &[]));
    let preload = ("LD_PRELOAD", lastuse.shared.as_os_str());
    for (variables, plans) in [(vec![preload], "1"), (vec![preload, ("LASTUSE", OsStr::new("off"))], "0")] {
        let outcome = support::expect(program.run_with(&[&plugin], &variables));
        assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
        assert_eq!(outcome.value("plans"), Some(plans), "{}", outcome.describe());
    }
}

/// Words in any case; LASTUSE_LOG shows who plans.
#[test]
fn the_usual_words_switch_off_and_unknown_ones_are_reported() {
    let lastuse = support::release();
    let ggml = support::ggml(Package::LlamaCpp);
    let program = Program::build("plan-two-graphs", &["programs/plan_two_graphs.c"], &ggml, Linked::SharedGgml, &[]);
    let program = support::expect(program);
    let log_with = |word: &str| {
        let variables = [("LD_PRELOAD", lastuse.shared.as_os_str()), ("LASTUSE", OsStr::new(word))];
        let outcome =
            support::expect(program.run_with(&[], &[&variables[..], &[("LASTUSE_LOG", OsStr::new("info"))]].concat()));
        assert_eq!(outcome.code, Some(0), "LASTUSE={word}: {}", outcome.describe());
        outcome.stderr
    };
    for off in ["off", "OFF", "0", "False", "no"] {
        assert_eq!(log_with(off), "", "LASTUSE={off}");
    }
    let is_planned = |log: &str| log.contains("lastuse: allocator 1: 1 leafs and 3 nodes are planned");
    for on in ["", "on", "1", "TRUE", "yes"] {
        let log = log_with(on);
        assert!(is_planned(&log) && !log.contains("LASTUSE"), "LASTUSE={on}: {log}");
    }
    let log = log_with("offf");
    assert!(is_planned(&log) && log.contains("LASTUSE has no effect: \"offf\" is unknown; known are on,"), "{log}");
}

/// The program then calls ggml's own allocator, and lastuse must not take what that made for its own.
#[test]
fn shared_library_behind_ggml_says_so_and_leaves_its_allocators_alone() {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::release());
    let program = Program::build("link-order", &["programs/link_order.c"], &ggml, Linked::LastuseBehind(&lastuse), &[]);
    let program = support::expect(program);
    for variables in [&[][..], &[("LASTUSE", OsStr::new("off"))]] {
        let outcome = support::expect(program.run_with(&[], variables));
        assert_eq!(outcome.code, Some(0), "{variables:?}: {}", outcome.describe());
        assert_eq!(outcome.stderr.matches("lastuse_gallocr_lower_bound").count(), 1, "{}", outcome.describe());
    }
}
