//! One lastuse for many ggmls: a version with other numbers of operations, and one with a layout that nobody knows.

mod support;

use std::ffi::OsStr;

use lastuse_c_tests::{Linked, Outcome, Program};
use lastuse_vendor::{Ggml, Package};

const SMALL: &[&str] = &[
    "--layers",
    "2",
    "--width",
    "128",
    "--heads",
    "4",
    "--kv-heads",
    "2",
    "--ffn",
    "512",
    "--vocab",
    "500",
    "--prompt",
    "48",
    "--decode",
    "3",
    "--threads",
    "1",
    "--machine",
];

fn run(program: &Program, variables: &[(&str, &OsStr)]) -> Outcome {
    support::expect(program.run_with(SMALL, variables))
}

fn llama_style(name: &str, ggml: &Ggml, linked: Linked<'_>) -> Program {
    support::expect(Program::build(name, &["llama_style.c"], ggml, linked, &[]))
}

/// Bytes of the compute buffer.
fn bytes(outcome: &Outcome) -> u64 {
    let value = outcome.value("compute_buffer_bytes").and_then(|value| value.parse().ok());
    value.unwrap_or_else(|| panic!("{}", outcome.describe()))
}

#[test]
fn serves_ggml_0_9_5_linked_and_preloaded() {
    let (ggml, lastuse) = (support::ggml(Package::WhisperCpp), support::release());
    assert_eq!(ggml.version, "0.9.5");
    let reference = run(&llama_style("ggml-0.9.5-reference", &ggml, Linked::Ggml), &[]);
    let linked = run(&llama_style("ggml-0.9.5-static", &ggml, Linked::LastuseArchive(&lastuse)), &[]);
    let preload = [("LD_PRELOAD", lastuse.shared.as_os_str())];
    let preloaded = run(&llama_style("ggml-0.9.5-shared", &ggml, Linked::SharedGgml), &preload);
    for outcome in [&linked, &preloaded] {
        assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
        assert!(outcome.value("allocator").is_some_and(|name| name.starts_with("lastuse")), "{}", outcome.describe());
        assert_eq!(outcome.value("logits_hash"), reference.value("logits_hash"));
        assert!(bytes(outcome) < bytes(&reference));
    }
}

/// Two sources more in each tensor: the shared ggml is there before any program is linked with it.
fn another_layout() -> Ggml {
    support::expect(lastuse_vendor::ggml_with_another_layout(Package::LlamaCpp))
}

#[test]
fn unknown_layout_preloaded_leaves_the_work_to_ggml_and_says_so_once() {
    let (ggml, lastuse) = (another_layout(), support::release());
    let sources = ["programs/plan_two_graphs.c"];
    let program = support::expect(Program::build_on_base("another-layout-preloaded", &sources, &ggml, None));
    let outcome = support::expect(program.run_with(&[], &[("LD_PRELOAD", lastuse.shared.as_os_str())]));
    assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
    let said: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains("lastuse")).collect();
    assert_eq!(said.len(), 1, "{}", outcome.describe());
    assert!(said[0].contains("unknown place") && said[0].contains(&ggml.version), "{}", said[0]);
}

#[test]
fn unknown_layout_linked_is_refused_with_both_versions() {
    let (ggml, lastuse) = (another_layout(), support::release());
    let sources = ["programs/plan_two_graphs.c"];
    let program = support::expect(Program::build_on_base("another-layout-linked", &sources, &ggml, Some(&lastuse)));
    let outcome = support::expect(program.run(&[]));
    assert!(outcome.signal.is_some(), "{}", outcome.describe());
    let versions = [format!("lastuse {}", env!("CARGO_PKG_VERSION")), format!("ggml {}", ggml.version)];
    assert!(versions.iter().all(|version| outcome.stderr.contains(version)), "{}", outcome.describe());
}
