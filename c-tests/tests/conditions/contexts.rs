//! Contexts without sizes: the memory that they hold, and misuse.

use lastuse_c_tests::Linked;
use lastuse_vendor::Package;

use crate::support::{self, all_cases_pass, build, listed_cases};

#[test]
fn memory() {
    let lastuse = support::release();
    for (name, package) in [("context-memory-0.9.5", Package::WhisperCpp), ("context-memory", Package::LlamaCpp)] {
        let (source, ggml) = ("tests/conditions/context_memory.c", support::ggml(package));
        all_cases_pass(&build(name, source, &ggml, Linked::LastuseArchive(&lastuse)), &[]);
    }
}

/// Builds with debug assertions keep freed contexts for a while, but not all of them.
#[test]
fn memory_of_debug_builds() {
    let (source, lastuse) = ("tests/conditions/context_memory.c", support::checked());
    let ggml = support::ggml(Package::LlamaCpp);
    all_cases_pass(&build("context-memory-checked", source, &ggml, Linked::LastuseArchive(&lastuse)), &[]);
}

#[test]
fn misuse_is_refused_in_release_builds() {
    let (source, lastuse) = ("tests/conditions/context_misuse.c", support::release());
    let ggml = support::ggml(Package::LlamaCpp);
    all_cases_pass(&build("context-misuse", source, &ggml, Linked::LastuseArchive(&lastuse)), &[]);
}

/// What all cases print that ends debug builds.
fn ended_debug_builds(name: &str, source: &str) -> Vec<(String, String)> {
    let program = build(name, source, &support::ggml(Package::LlamaCpp), Linked::LastuseArchive(&support::checked()));
    let ended = |case: String| {
        let outcome = support::expect(program.run(&[&case]));
        assert!(outcome.signal.is_some(), "{case}: {}", outcome.describe());
        (case, outcome.stderr)
    };
    listed_cases(&program, &[]).into_iter().map(ended).collect()
}

#[test]
fn misuse_aborts_in_debug_builds() {
    for (case, log) in ended_debug_builds("context-misuse-checked", "tests/conditions/context_misuse.c") {
        let is_message = |line: &str| line.contains("lastuse_context_") && line.contains(": the context ");
        assert!(log.lines().any(is_message), "{case}: {log}");
    }
}

#[test]
fn use_of_a_freed_context_ends_debug_builds() {
    for (case, log) in ended_debug_builds("context-freed", "tests/conditions/context_freed.c") {
        let is_reported = log.contains("ggml_dependency: the context was freed before");
        assert_eq!(is_reported, case.starts_with("dependency"), "{case}: {log}");
    }
}
