//! Nothing is lost on any path, and no byte is touched that is not ours: the test programs under AddressSanitizer and
//! LeakSanitizer.

mod support;

use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::Package;

const SANITIZE: &[&str] = &["-fsanitize=address", "-fno-omit-frame-pointer"];

/// Runs all cases of a program, with both allocators in it.
fn is_clean(name: &str, supports: &[&str]) {
    let sanitized = format!("{name}-sanitized");
    let sources = support::sources(name, supports);
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::checked());
    let program = support::expect(Program::build(&sanitized, &sources, &ggml, Linked::Both(&lastuse), SANITIZE));
    let cases = support::expect(program.run(&[])).stdout;
    assert!(cases.lines().count() > 5, "the program lists its cases");
    for case in cases.lines() {
        support::passes(&program, &[case]);
    }
}

#[test]
fn sanitizers_are_on() {
    let ggml = support::ggml(Package::LlamaCpp);
    let program = Program::build("leak", &["programs/leak.c"], &ggml, Linked::Ggml, SANITIZE);
    let program = support::expect(program);
    for (fault, named) in [("leak", "LeakSanitizer"), ("overrun", "AddressSanitizer")] {
        let outcome = support::expect(program.run(&[fault]));
        assert_ne!(outcome.code, Some(0), "{}", outcome.describe());
        assert!(outcome.stderr.contains(named), "{}", outcome.describe());
    }
}

#[test]
fn failures_leak_nothing() {
    is_clean("failures", &["dummy_buffer"]);
}

#[test]
fn lifecycle_leaks_nothing() {
    is_clean("lifecycle", &["dummy_buffer", "plan_check", "transformer"]);
}

#[test]
fn context_tensors_leak_nothing() {
    is_clean("ctx_tensors", &["dummy_buffer"]);
}

#[test]
fn remembered_plans_leak_nothing() {
    is_clean("remembered", &["random_graph", "dummy_buffer", "plan_check", "transformer"]);
}

#[test]
fn contexts_leak_nothing() {
    is_clean("contexts", &["dummy_buffer"]);
}
