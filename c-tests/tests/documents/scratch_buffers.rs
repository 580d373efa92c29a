//! `examples/scratch_buffers`: a program with sizes computed by hand, scratch buffers and copies, and one without them;
//! and that `docs/internals/from-scratch-buffers.md` quotes both.

use std::ffi::OsStr;

use crate::support;
use lastuse_c_tests::{Linked, Outcome, Program};
use lastuse_vendor::{Ggml, Package};

const PAGE: &str = include_str!("../../../docs/internals/from-scratch-buffers.md");
const BEFORE: &str = include_str!("../../examples/scratch_buffers/before.c");
const AFTER: &str = include_str!("../../examples/scratch_buffers/after.c");

fn build(name: &str, source: &str, ggml: &Ggml, linked: Linked<'_>) -> Program {
    let source = format!("examples/scratch_buffers/{source}");
    support::expect(Program::build(name, &[&source], ggml, linked, &["-pedantic"]))
}

/// Runs before.c.
fn before(package: Package, threads: &str) -> Outcome {
    let ggml = support::ggml(package);
    let name = format!("scratch-buffers-before-{}", ggml.version);
    support::passes(&build(&name, "before.c", &ggml, Linked::Ggml), &[threads])
}

fn assert_same_results(before: &Outcome, after: &Outcome) {
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
        for threads in ["1", "2"] {
            let (before, after) = (before(package, threads), support::passes(&program, &[threads]));
            assert_same_results(&before, &after);
            assert!(compute_bytes(&after) < compute_bytes(&before));
            assert_eq!(after.stderr, "", "a copy had to be made: see ggml's log");
        }
    }
}

/// The program keeps working where ggml's own allocator does the work.
#[test]
fn same_bits_when_lastuse_is_switched_off() {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::release());
    let program = build("scratch-buffers-off", "after.c", &ggml, Linked::LastuseShared(&lastuse));
    let off = support::expect(program.run_with(&["1"], &[("LASTUSE", OsStr::new("off"))]));
    assert_same_results(&before(Package::LlamaCpp, "1"), &off);
}

/// The code in the page, each with the text after the fence: its language and its file.
fn quotes() -> Vec<(&'static str, &'static str)> {
    let mut parts = PAGE.split("```");
    parts.next();
    let quotes: Vec<_> = parts.step_by(2).map(|part| part.split_once('\n').expect("a fence ends its line")).collect();
    assert_eq!(PAGE.matches("```").count(), 2 * quotes.len(), "each fence is closed");
    quotes
}

#[test]
fn page_quotes_the_programs() {
    let quotes = quotes();
    for (file, text) in [("c before.c", BEFORE), ("c after.c", AFTER)] {
        let of_file: Vec<&str> = quotes.iter().filter(|(name, _)| *name == file).map(|&(_, quote)| quote).collect();
        assert!(of_file.len() >= 5, "{file}: {} quotes", of_file.len());
        // An empty line in a quote may replace several lines.
        for part in of_file.iter().flat_map(|quote| quote.trim_end().split("\n\n")) {
            assert!(text.contains(&format!("\n{part}\n")), "not in {file}:\n{part}");
        }
    }
    assert!(quotes.iter().all(|(name, _)| ["c before.c", "c after.c"].contains(name)), "every quote names its file");
}

#[test]
fn page_states_the_bytes() {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::release());
    let program = build("scratch-buffers-page", "after.c", &ggml, Linked::LastuseArchive(&lastuse));
    let (before, after) = (before(Package::LlamaCpp, "1"), support::passes(&program, &["1"]));
    let line = format!(
        "| bytes for computing a prompt of 96 tokens | {} | {} |",
        compute_bytes(&before),
        compute_bytes(&after)
    );
    assert!(PAGE.contains(&line), "not in the page: {line}");
}
