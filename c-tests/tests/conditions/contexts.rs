//! Contexts without sizes: with the newest and the oldest ggml, where ggml's own allocator serves, and misused.

mod support;

use std::ffi::OsStr;

use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::Package;
use support::{build, listed_cases};

fn all_cases_pass(program: &Program, variables: &[(&str, &OsStr)]) {
    for case in listed_cases(program, &[]) {
        let outcome = support::expect(program.run_with(&[&case], variables));
        assert_eq!(outcome.code, Some(0), "{case}: {}", outcome.describe());
    }
}

#[test]
fn ggml_0_9_5() {
    let (ggml, lastuse) = (support::ggml(Package::WhisperCpp), support::release());
    all_cases_pass(&build("contexts-0.9.5", "contexts", &ggml, Linked::LastuseArchive(&lastuse)), &[]);
}

#[test]
fn switched_off() {
    let lastuse = support::release();
    let off = [("LASTUSE", OsStr::new("off"))];
    for (name, package) in [("contexts-off-0.9.5", Package::WhisperCpp), ("contexts-off", Package::LlamaCpp)] {
        let program = build(name, "contexts", &support::ggml(package), Linked::LastuseShared(&lastuse));
        all_cases_pass(&program, &off);
    }
}

#[test]
fn memory() {
    let lastuse = support::release();
    for (name, package) in [("context-memory-0.9.5", Package::WhisperCpp), ("context-memory", Package::LlamaCpp)] {
        let program = build(name, "context_memory", &support::ggml(package), Linked::LastuseArchive(&lastuse));
        all_cases_pass(&program, &[]);
    }
}

/// Builds with debug assertions keep freed contexts for a while, but not all of them.
#[test]
fn memory_of_debug_builds() {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::checked());
    let program = build("context-memory-checked", "context_memory", &ggml, Linked::LastuseArchive(&lastuse));
    all_cases_pass(&program, &[]);
}

#[test]
fn misuse_is_refused_in_release_builds() {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::release());
    all_cases_pass(&build("context-misuse", "context_misuse", &ggml, Linked::LastuseArchive(&lastuse)), &[]);
}

#[test]
fn misuse_aborts_in_debug_builds() {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::checked());
    let program = build("context-misuse-checked", "context_misuse", &ggml, Linked::LastuseArchive(&lastuse));
    for case in listed_cases(&program, &[]) {
        let outcome = support::expect(program.run(&[&case]));
        assert!(outcome.signal.is_some(), "{case}: {}", outcome.describe());
        let is_message = |line: &str| line.contains("lastuse_context_") && line.contains(": the context ");
        assert!(outcome.stderr.lines().any(is_message), "{case}: {}", outcome.describe());
    }
}

#[test]
fn use_of_a_freed_context_ends_debug_builds() {
    let lastuse = support::checked();
    let ggml = support::ggml(Package::LlamaCpp);
    let program = build("context-freed", "context_freed", &ggml, Linked::LastuseArchive(&lastuse));
    for case in listed_cases(&program, &[]) {
        let outcome = support::expect(program.run(&[&case]));
        assert!(outcome.signal.is_some(), "{case}: {}", outcome.describe());
        let is_reported = outcome.stderr.contains("ggml_dependency: the context was freed before");
        assert_eq!(is_reported, case.starts_with("dependency"), "{case}: {}", outcome.describe());
    }
}

/// Where this library places the tensors of a context itself: ggml 0.9.5 has no function for that.
#[test]
fn tensors_of_a_context_of_ggml_0_9_5() {
    let (ggml, lastuse) = (support::ggml(Package::WhisperCpp), support::checked());
    all_cases_pass(&build("ctx_tensors-0.9.5", "ctx_tensors", &ggml, Linked::Both(&lastuse)), &[]);
}
