//! A real program on lastuse, linked statically, linked with the shared library and preloaded; and without lastuse.

use std::ffi::OsStr;

use crate::support;
use crate::support::llama_style::{build, number, run};
use lastuse_c_tests::{Linked, Outcome, Program};
use lastuse_vendor::Package;

/// Asserts that lastuse planned: the bits are those of ggml's own allocator, in less memory.
fn assert_lastuse_did_it(outcome: &Outcome, mode: &[&str]) {
    let reference = run(&build("llama-style-reference", Package::LlamaCpp, Linked::Ggml), mode, &[]);
    assert_eq!(reference.value("allocator"), Some("ggml"));
    assert!(outcome.value("allocator").is_some_and(|name| name.starts_with("lastuse")), "{}", outcome.describe());
    assert_eq!(outcome.value("logits_hash"), reference.value("logits_hash"), "the logits differ");
    assert!(number(outcome, "plans") > 0, "lastuse made no plan");
    assert!(number(outcome, "compute_buffer_bytes") < number(&reference, "compute_buffer_bytes"));
}

#[test]
fn static_library_before_ggml() {
    let lastuse = support::release();
    let program = build("llama-style-static", Package::LlamaCpp, Linked::LastuseArchive(&lastuse));
    for mode in [["--allocator", "gallocr"], ["--allocator", "sched"]] {
        assert_lastuse_did_it(&run(&program, &mode, &[]), &mode);
    }
}

#[test]
fn shared_library_before_shared_ggml() {
    let lastuse = support::release();
    let program = build("llama-style-shared", Package::LlamaCpp, Linked::LastuseShared(&lastuse));
    for mode in [["--allocator", "gallocr"], ["--allocator", "sched"]] {
        assert_lastuse_did_it(&run(&program, &mode, &[]), &mode);
    }
}

#[test]
fn preloaded_over_shared_ggml() {
    let lastuse = support::release();
    let program = build("llama-style-preloaded", Package::LlamaCpp, Linked::SharedGgml);
    let preload = [("LD_PRELOAD", lastuse.shared.as_os_str())];
    for mode in [["--attention", "softmax"], ["--allocator", "sched"]] {
        assert_lastuse_did_it(&run(&program, &mode, &preload), &mode);
    }
}

#[test]
fn switched_off_hands_every_call_to_ggml() {
    let lastuse = support::release();
    let program = build("llama-style-off", Package::LlamaCpp, Linked::SharedGgml);
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

/// A plugin brings a ggml with it that only the plugin can see.
#[test]
fn preloaded_under_a_ggml_that_is_loaded_later() {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::release());
    let libraries = ggml.libraries.display();
    let flags = [format!("-L{libraries}"), format!("-Wl,-rpath,{libraries}")];
    let flags = ["-Dmain=plan_graphs", &flags[0], &flags[1], "-lggml-base"];
    let plugin = Program::build_shared("libplan_graphs.so", &["tests/support/plan_two_graphs.c"], &ggml, &flags);
    let plugin = support::expect(plugin).to_string_lossy().into_owned();
    let program = support::build("load-plugin", "tests/support/load_plugin.c", &ggml, Linked::Ggml);
    let preload = ("LD_PRELOAD", lastuse.shared.as_os_str());
    for (variables, plans) in [(vec![preload], "1"), (vec![preload, ("LASTUSE", OsStr::new("off"))], "0")] {
        let outcome = support::expect(program.run_with(&[&plugin], &variables));
        assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
        assert_eq!(outcome.value("plans"), Some(plans), "{}", outcome.describe());
    }
}

/// Words may be in any case; `LASTUSE_LOG` shows which allocator plans.
#[test]
fn usual_words_switch_off_and_unknown_ones_are_reported() {
    let lastuse = support::release();
    let ggml = support::ggml(Package::LlamaCpp);
    let program = support::build("plan-two-graphs", "tests/support/plan_two_graphs.c", &ggml, Linked::SharedGgml);
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
    assert!(is_planned(&log) && log.contains("LASTUSE has no effect: \"offf\" is unknown; expected on,"), "{log}");
}

/// The program then calls ggml's own allocator: lastuse must not mistake its allocators for its own.
#[test]
fn shared_library_behind_ggml_reports_it_and_leaves_ggmls_allocators_alone() {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::release());
    let program = support::build("link-order", "tests/support/link_order.c", &ggml, Linked::LastuseBehind(&lastuse));
    for variables in [&[][..], &[("LASTUSE", OsStr::new("off"))]] {
        let outcome = support::expect(program.run_with(&[], variables));
        assert_eq!(outcome.code, Some(0), "{variables:?}: {}", outcome.describe());
        assert_eq!(outcome.stderr.matches("lastuse_gallocr_report").count(), 1, "{}", outcome.describe());
    }
}
