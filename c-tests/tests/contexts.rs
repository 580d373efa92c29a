//! Contexts without sizes: with the newest and the oldest ggml, where ggml's own allocator serves, and misused.

mod support;

use std::ffi::OsStr;

use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::{Ggml, Package};

/// A program with lastuse, which is linked in some way.
fn program(name: &str, source: &str, ggml: &Ggml, linked: Linked<'_>) -> Program {
    let sources = support::sources(source, if source == "contexts" { &["dummy_buffer"] } else { &[] });
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    support::expect(Program::build(name, &sources, ggml, linked, &[]))
}

fn cases(program: &Program) -> Vec<String> {
    let listed = support::expect(program.run(&[])).stdout;
    let cases: Vec<String> = listed.lines().map(str::to_owned).collect();
    assert!(cases.len() > 3, "the program lists its cases");
    cases
}

fn all_cases_pass(program: &Program, variables: &[(&str, &OsStr)]) {
    for case in cases(program) {
        let outcome = support::expect(program.run_with(&[&case], variables));
        assert_eq!(outcome.code, Some(0), "{case}: {}", outcome.describe());
    }
}

#[test]
fn ggml_0_9_5() {
    let (ggml, lastuse) = (support::ggml(Package::WhisperCpp), support::release());
    all_cases_pass(&program("contexts-0.9.5", "contexts", &ggml, Linked::LastuseArchive(&lastuse)), &[]);
}

#[test]
fn switched_off() {
    let lastuse = support::release();
    let off = [("LASTUSE", OsStr::new("off"))];
    for (name, package) in [("contexts-off-0.9.5", Package::WhisperCpp), ("contexts-off", Package::LlamaCpp)] {
        let program = program(name, "contexts", &support::ggml(package), Linked::LastuseShared(&lastuse));
        all_cases_pass(&program, &off);
    }
}

#[test]
fn memory() {
    let lastuse = support::release();
    for (name, package) in [("context-memory-0.9.5", Package::WhisperCpp), ("context-memory", Package::LlamaCpp)] {
        let program = program(name, "context_memory", &support::ggml(package), Linked::LastuseArchive(&lastuse));
        all_cases_pass(&program, &[]);
    }
}

/// Builds with debug assertions keep freed contexts for a while: also that has an end.
#[test]
fn memory_of_debug_builds() {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::checked());
    let program = program("context-memory-checked", "context_memory", &ggml, Linked::LastuseArchive(&lastuse));
    all_cases_pass(&program, &[]);
}

#[test]
fn misuse_is_refused_in_release_builds() {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::release());
    all_cases_pass(&program("context-misuse", "context_misuse", &ggml, Linked::LastuseArchive(&lastuse)), &[]);
}

#[test]
fn misuse_aborts_in_debug_builds() {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::checked());
    let program = program("context-misuse-checked", "context_misuse", &ggml, Linked::LastuseArchive(&lastuse));
    for case in cases(&program) {
        let outcome = support::expect(program.run(&[&case]));
        assert!(outcome.signal.is_some(), "{case}: {}", outcome.describe());
        let says = |line: &str| line.contains("lastuse_context_") && line.contains(": the context ");
        assert!(outcome.stderr.lines().any(says), "{case}: {}", outcome.describe());
    }
}

#[test]
fn use_of_a_freed_context_ends_debug_builds() {
    let lastuse = support::checked();
    let ggml = support::ggml(Package::LlamaCpp);
    let program = program("context-freed", "context_freed", &ggml, Linked::LastuseArchive(&lastuse));
    for case in cases(&program) {
        let outcome = support::expect(program.run(&[&case]));
        assert!(outcome.signal.is_some(), "{case}: {}", outcome.describe());
        let is_told = outcome.stderr.contains("ggml_dependency: the context was freed before");
        assert_eq!(is_told, case.starts_with("dependency"), "{case}: {}", outcome.describe());
    }
}
