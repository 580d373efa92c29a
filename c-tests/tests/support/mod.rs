//! What the tests of this folder share: each library is built once, also when many tests want it.
#![allow(dead_code, reason = "each test file uses some of it")]

pub mod llama_style;
pub mod survey;
pub mod tool;
pub mod trials;

use std::sync::Mutex;

use lastuse_c_tests::{Build, Lastuse, Linked, Outcome, Program, build_side_by_side, lastuse};
use lastuse_vendor::{Ggml, Package};

static BUILDING: Mutex<()> = Mutex::new(());

/// Ends the test with the message of an error.
pub fn expect<T>(result: Result<T, String>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// The ggml of a package.
pub fn ggml(package: Package) -> Ggml {
    let _one_at_a_time = BUILDING.lock();
    expect(lastuse_vendor::ggml(package))
}

/// lastuse as users build it.
pub fn release() -> Lastuse {
    library(Build::Release)
}

/// lastuse that simulates every plan before it is used.
pub fn checked() -> Lastuse {
    library(Build::Checked)
}

/// lastuse built in some way.
pub fn library(build: Build) -> Lastuse {
    let _one_at_a_time = BUILDING.lock();
    build_side_by_side();
    expect(lastuse(build))
}

/// Builds `programs/<source>.c` as a program called `name`, without further flags.
pub fn build(name: &str, source: &str, ggml: &Ggml, linked: Linked<'_>) -> Program {
    expect(Program::build(name, &[&format!("programs/{source}.c")], ggml, linked, &[]))
}

/// Builds a program from `programs/` on the ggml of llama.cpp, with upstream's allocator beside lastuse's.
pub fn build_with_both(name: &str) -> Program {
    build(name, name, &ggml(Package::LlamaCpp), Linked::Both(&checked()))
}

/// Returns the cases that a program lists when it is run without a case.
pub fn listed_cases(program: &Program, arguments: &[&str]) -> Vec<String> {
    let outcome = expect(program.run(arguments));
    assert_eq!(outcome.code, Some(2), "{}", outcome.describe());
    let cases: Vec<String> = outcome.stdout.lines().map(str::to_owned).collect();
    assert!(!cases.is_empty(), "{} lists no case", program.path().display());
    cases
}

/// Runs a program and expects it to pass.
pub fn passes(program: &Program, arguments: &[&str]) -> Outcome {
    let outcome = expect(program.run(arguments));
    assert_eq!(outcome.code, Some(0), "{arguments:?}: {}", outcome.describe());
    outcome
}
