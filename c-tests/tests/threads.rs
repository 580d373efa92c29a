//! Allocators in several threads share nothing that is not guarded: a program with several of them under valgrind's
//! helgrind, which also has to find the race of threads that share one. `.ci/run` installs valgrind.

mod support;

use std::sync::OnceLock;

use lastuse_c_tests::{Outcome, Program};
use lastuse_vendor::Package;

/// What valgrind answers when it has something to complain of.
const RACE: i32 = 43;

fn program() -> &'static Program {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let ggml = support::expect(lastuse_vendor::ggml_base_for_any_machine(Package::LlamaCpp));
        let sources = support::sources("threads", &["random_graph", "dummy_buffer"]);
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
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
fn helgrind_sees_threads_that_share_an_allocator() {
    let outcome = under_helgrind("race");
    assert_ne!(outcome.code, Some(0), "{}", outcome.describe());
    let seen = outcome.stderr.contains("Possible data race") && outcome.stderr.contains("lastuse::");
    assert!(seen, "{}", outcome.describe());
}
