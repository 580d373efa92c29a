//! No path leaks memory or touches a byte outside of its own memory: the test programs under AddressSanitizer and
//! LeakSanitizer.

mod support;

use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::Package;

const SANITIZE: &[&str] = &["-fsanitize=address", "-fno-omit-frame-pointer"];

/// Runs all cases of a program that has both allocators in it.
fn is_clean(name: &str) {
    let sanitized = format!("{name}-sanitized");
    let source = format!("programs/{name}.c");
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::checked());
    let program = support::expect(Program::build(&sanitized, &[&source], &ggml, Linked::Both(&lastuse), SANITIZE));
    let cases = support::listed_cases(&program, &[]);
    assert!(cases.len() > 5, "{cases:?}");
    for case in &cases {
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
    is_clean("failures");
}

#[test]
fn lifecycle_leaks_nothing() {
    is_clean("lifecycle");
}

#[test]
fn context_tensors_leak_nothing() {
    is_clean("ctx_tensors");
}

#[test]
fn remembered_plans_leak_nothing() {
    is_clean("plan_cache");
}

#[test]
fn contexts_leak_nothing() {
    is_clean("contexts");
}
