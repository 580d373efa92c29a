//! Allocators in several threads share no unguarded memory: a program with several of them runs under valgrind's
//! helgrind, which must also find the race of threads that share one. `.ci/run` installs valgrind.

use std::sync::OnceLock;

use crate::support;
use lastuse_c_tests::{Outcome, Program};
use lastuse_vendor::Package;

/// The exit code of valgrind when it reports an error.
const RACE: i32 = 43;

fn program() -> &'static Program {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let ggml = support::expect(lastuse_vendor::ggml_base_for_any_machine(Package::LlamaCpp));
        let sources = ["tests/conditions/threads.c"];
        support::expect(Program::build_on_base("threads", &sources, &ggml, Some(&support::release())))
    })
}

fn under_helgrind(case: &str) -> Outcome {
    let path = program().path().to_str().expect("the path is UTF-8");
    let code = format!("--error-exitcode={RACE}");
    support::expect(Program::existing("valgrind").run(&["--tool=helgrind", &code, path, case]))
}

#[test]
fn allocators_of_their_own_do_not_race() {
    let outcome = under_helgrind("apart");
    assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
}

#[test]
fn helgrind_finds_threads_that_share_an_allocator() {
    let outcome = under_helgrind("race");
    assert_ne!(outcome.code, Some(0), "{}", outcome.describe());
    let is_found = outcome.stderr.contains("Possible data race") && outcome.stderr.contains("lastuse::");
    assert!(is_found, "{}", outcome.describe());
}
