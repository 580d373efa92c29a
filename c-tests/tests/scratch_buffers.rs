//! A program with sizes computed by hand, scratch buffers and copies, and the same without them: `examples/scratch_buffers`.

mod support;

use std::ffi::OsStr;

use lastuse_c_tests::{Linked, Outcome, Program};
use lastuse_vendor::{Ggml, Package};

fn build(name: &str, source: &str, ggml: &Ggml, linked: Linked<'_>) -> Program {
    let source = format!("examples/scratch_buffers/{source}");
    support::expect(Program::build(name, &[&source], ggml, linked, &["-pedantic"]))
}

/// The program of before.c.
fn before(package: Package, threads: &str) -> Outcome {
    let ggml = support::ggml(package);
    let name = format!("scratch-buffers-before-{}", ggml.version);
    support::passes(&build(&name, "before.c", &ggml, Linked::Ggml), &[threads])
}

fn assert_same_answer(before: &Outcome, after: &Outcome) {
    assert!(before.value("logits_hash").is_some(), "{}", before.describe());
    for key in ["answer", "logits_hash"] {
        assert_eq!(before.value(key), after.value(key), "{}{}", before.describe(), after.describe());
    }
}

fn compute_bytes(outcome: &Outcome) -> u64 {
    let value = outcome.value("compute_bytes").and_then(|value| value.parse().ok());
    value.unwrap_or_else(|| panic!("{}", outcome.describe()))
}

#[test]
fn same_bits_in_less_memory() {
    for package in [Package::LlamaCpp, Package::WhisperCpp] {
        let (ggml, lastuse) = (support::ggml(package), support::release());
        let name = format!("scratch-buffers-after-{}", ggml.version);
        let program = build(&name, "after.c", &ggml, Linked::LastuseArchive(&lastuse));
        for threads in ["1", "3"] {
            let (before, after) = (before(package, threads), support::passes(&program, &[threads]));
            assert_same_answer(&before, &after);
            assert!(compute_bytes(&after) < compute_bytes(&before));
            assert_eq!(after.stderr, "", "a copy had to be made: ggml's log says why");
        }
    }
}

/// The program keeps working where ggml's own allocator does the work.
#[test]
fn same_bits_when_lastuse_is_switched_off() {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::release());
    let program = build("scratch-buffers-off", "after.c", &ggml, Linked::LastuseShared(&lastuse));
    let off = support::expect(program.run_with(&["1"], &[("LASTUSE", OsStr::new("off"))]));
    assert_same_answer(&before(Package::LlamaCpp, "1"), &off);
}
