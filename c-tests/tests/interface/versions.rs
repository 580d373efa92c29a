//! One lastuse for many ggmls: a version whose operations have other numbers, and one with a layout that lastuse does
//! not know.

use crate::support;
use crate::support::llama_style::{self, number, run};
use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::{Ggml, Package};

#[test]
fn serves_ggml_0_9_5_linked_and_preloaded() {
    let lastuse = support::release();
    assert_eq!(support::ggml(Package::WhisperCpp).version, "0.9.5");
    let build = |name, linked| llama_style::build(name, Package::WhisperCpp, linked);
    let reference = run(&build("ggml-0.9.5-reference", Linked::Ggml), &[], &[]);
    let linked = run(&build("ggml-0.9.5-static", Linked::LastuseArchive(&lastuse)), &[], &[]);
    let preload = [("LD_PRELOAD", lastuse.shared.as_os_str())];
    let preloaded = run(&build("ggml-0.9.5-shared", Linked::SharedGgml), &[], &preload);
    for outcome in [&linked, &preloaded] {
        assert!(outcome.value("allocator").is_some_and(|name| name.starts_with("lastuse")), "{}", outcome.describe());
        assert_eq!(outcome.value("logits_hash"), reference.value("logits_hash"));
        assert!(number(outcome, "compute_buffer_bytes") < number(&reference, "compute_buffer_bytes"));
    }
}

/// Builds a ggml with two sources more in each tensor, before a program is linked with it.
fn another_layout() -> Ggml {
    support::expect(lastuse_vendor::ggml_with_another_layout(Package::LlamaCpp))
}

#[test]
fn unknown_layout_preloaded_leaves_the_work_to_ggml_and_logs_it_once() {
    let (ggml, lastuse) = (another_layout(), support::release());
    let sources = ["tests/support/plan_two_graphs.c"];
    let program = support::expect(Program::build_on_base("another-layout-preloaded", &sources, &ggml, None));
    let outcome = support::expect(program.run_with(&[], &[("LD_PRELOAD", lastuse.shared.as_os_str())]));
    assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
    let lines: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains("lastuse")).collect();
    assert_eq!(lines.len(), 1, "{}", outcome.describe());
    assert!(lines[0].contains("unknown offset") && lines[0].contains(&ggml.version), "{}", lines[0]);
}

#[test]
fn unknown_layout_linked_is_refused_with_both_versions() {
    let (ggml, lastuse) = (another_layout(), support::release());
    let sources = ["tests/support/plan_two_graphs.c"];
    let program = support::expect(Program::build_on_base("another-layout-linked", &sources, &ggml, Some(&lastuse)));
    let outcome = support::expect(program.run(&[]));
    assert!(outcome.signal.is_some(), "{}", outcome.describe());
    let versions = [format!("lastuse {}", env!("CARGO_PKG_VERSION")), format!("ggml {}", ggml.version)];
    assert!(versions.iter().all(|version| outcome.stderr.contains(version)), "{}", outcome.describe());
}
