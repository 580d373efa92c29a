//! Mistakes that no return value can report end in `ggml_abort`, with a message that names the argument.

use std::sync::OnceLock;

use crate::support;
use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::Package;

/// The exit code of a program that was aborted with the expected message.
const ABORTED: i32 = 43;

fn program() -> &'static Program {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    PROGRAM.get_or_init(|| support::build_with_both("aborts", "tests/interface/aborts.c"))
}

#[test]
fn every_mistake_is_named() {
    let program = program();
    let cases = support::listed_cases(program, &[]);
    assert!(cases.len() > 20, "{cases:?}");
    for case in &cases {
        let outcome = support::expect(program.run(&[case, "lastuse"]));
        assert_eq!(outcome.code, Some(ABORTED), "{case}: {}", outcome.describe());
    }
}

#[test]
fn upstream_aborts_on_the_mistakes_that_it_checks() {
    let program = program();
    let cases = support::listed_cases(program, &["upstream"]);
    assert!(cases.len() > 5, "{cases:?}");
    for case in &cases {
        let outcome = support::expect(program.run(&[case, "upstream"]));
        let ended = outcome.code == Some(ABORTED) || outcome.signal.is_some();
        assert!(ended, "{case}: {}", outcome.describe());
    }
}

#[test]
fn a_panic_ends_in_the_abort_callback_and_never_unwinds_into_c() {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::checked());
    let sources = ["tests/interface/panic_probe.cpp"];
    for (name, linked) in
        [("panic-static", Linked::LastuseArchive(&lastuse)), ("panic-shared", Linked::LastuseShared(&lastuse))]
    {
        let program = support::expect(Program::build(name, &sources, &ggml, linked, &[]));
        let outcome = support::expect(program.run(&[]));
        assert_eq!(outcome.code, Some(ABORTED), "{}", outcome.describe());
        assert!(outcome.stdout.contains("probed on purpose"), "{}", outcome.describe());
    }
}
