//! A short run of `cargo fuzz-graphs` on lastuse, which simulates every plan, and a run on an allocator with faults.

use std::sync::OnceLock;

use crate::support;
use lastuse_c_tests::{FUZZ_SOURCES, Linked, Program, fuzz_program};
use lastuse_vendor::Package;

fn program() -> &'static Program {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    let build = || fuzz_program("fuzz_graphs", &support::ggml(Package::LlamaCpp), &support::checked());
    PROGRAM.get_or_init(|| support::expect(build()))
}

#[test]
fn thousands_of_graphs_have_no_finding() {
    let outcome = support::passes(program(), &["--seed", "20000001", "--graphs", "8000", "--computed", "10"]);
    assert!(outcome.stdout.contains("8000 graphs from seed 20000001"), "{}", outcome.describe());
    assert!(outcome.stdout.ends_with(" 0 findings\n"), "{}", outcome.describe());
}

/// With ggml's own allocator in place of lastuse: it uses stale plans, among other faults.
#[test]
fn findings_are_reported_with_their_seeds() {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::checked());
    let names = lastuse_c_tests::folder().join("support/upstream_names.h");
    let flags = ["-O2", "-include", names.to_str().expect("the path is UTF-8")];
    let build = Program::build("fuzz_upstream", &FUZZ_SOURCES, &ggml, Linked::Both(&lastuse), &flags);
    let program = support::expect(build);
    let outcome = support::expect(program.run(&["--graphs", "3000"]));
    assert_eq!(outcome.code, Some(1), "{}", outcome.describe());
    let (_, rest) = outcome.stdout.split_once("finding 1: seed ").unwrap_or_else(|| panic!("{}", outcome.describe()));
    let seed = rest.split(' ').next().expect("a number");
    let again = support::expect(program.run(&["--seed", seed, "--graphs", "1"]));
    assert_eq!(again.code, Some(1), "{}", again.describe());
    assert!(again.stdout.contains(&format!("cargo fuzz-graphs --seed {seed} --graphs 1")), "{}", again.describe());
}

#[test]
fn arguments_that_are_not_understood_are_refused() {
    for arguments in
        [&["--seed"][..], &["--graphs", "many"], &["--computed", "101"], &["--shared", "all"], &["--all", "1"]]
    {
        let outcome = support::expect(program().run(arguments));
        assert_eq!(outcome.code, Some(2), "{arguments:?}: {}", outcome.describe());
    }
}
