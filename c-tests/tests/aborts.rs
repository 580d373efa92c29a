//! Mistakes that no answer could tell about end in `ggml_abort`, with a message that names the argument.

mod support;

use std::sync::OnceLock;

use lastuse_c_tests::{Build, Linked, Program};
use lastuse_vendor::Package;

/// What the program answers when it was ended with the right message.
const ABORTED: i32 = 43;

fn program() -> &'static Program {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    PROGRAM.get_or_init(|| support::program_with_both("aborts", &["dummy_buffer"], &[]))
}

#[test]
fn every_mistake_is_named() {
    let program = program();
    let cases = support::expect(program.run(&[])).stdout;
    assert!(cases.lines().count() > 20, "the program lists its cases");
    for case in cases.lines() {
        let outcome = support::expect(program.run(&[case, "lastuse"]));
        assert_eq!(outcome.code, Some(ABORTED), "{case}: {}", outcome.describe());
    }
}

#[test]
fn what_ggml_aborts_on_is_aborted_on() {
    let program = program();
    let cases = support::expect(program.run(&["upstream"])).stdout;
    assert!(cases.lines().count() > 5, "the program lists its cases");
    for case in cases.lines() {
        let outcome = support::expect(program.run(&[case, "upstream"]));
        let ended = outcome.code == Some(ABORTED) || outcome.signal.is_some();
        assert!(ended, "{case}: {}", outcome.describe());
    }
}

#[test]
fn a_panic_ends_in_the_abort_callback_and_never_unwinds_into_c() {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::library(Build::PanicProbe));
    let sources = ["programs/panic_probe.cpp"];
    for (name, linked) in
        [("panic-static", Linked::LastuseArchive(&lastuse)), ("panic-shared", Linked::LastuseShared(&lastuse))]
    {
        let program = support::expect(Program::build(name, &sources, &ggml, linked, &[]));
        let outcome = support::expect(program.run(&[]));
        assert_eq!(outcome.code, Some(ABORTED), "{}", outcome.describe());
        assert!(outcome.stdout.contains("probed on purpose"), "{}", outcome.describe());
    }
}
