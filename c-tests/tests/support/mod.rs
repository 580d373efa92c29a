//! What the tests of this folder share: each library is built once, also when many tests want it.
#![allow(dead_code, reason = "each test file uses some of it")]

pub mod llama_style;
pub mod survey;

use std::sync::Mutex;

pub use lastuse_c_tests::sources;
use lastuse_c_tests::{Build, Lastuse, Linked, Outcome, Program, lastuse};
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
    expect(lastuse(build))
}

/// A test program from `programs/`, with upstream's allocator beside lastuse's.
pub fn program_with_both(name: &str, supports: &[&str], flags: &[&str]) -> Program {
    let sources = sources(name, supports);
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let (ggml, lastuse) = (ggml(Package::LlamaCpp), checked());
    expect(Program::build(name, &sources, &ggml, Linked::Both(&lastuse), flags))
}

/// Runs a program and expects it to pass.
pub fn passes(program: &Program, arguments: &[&str]) -> Outcome {
    let outcome = expect(program.run(arguments));
    assert_eq!(outcome.code, Some(0), "{arguments:?}: {}", outcome.describe());
    outcome
}
