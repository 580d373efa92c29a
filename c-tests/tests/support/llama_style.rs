//! The language model of `llama_style.c` with a small shape.

use std::ffi::OsStr;

use lastuse_c_tests::{Linked, Outcome, Program};
use lastuse_vendor::Package;

pub const LAYERS: u64 = 3;

#[rustfmt::skip]
pub const SMALL: &[&str] = &[
    "--layers", "3", "--width", "256", "--heads", "8", "--kv-heads", "2", "--ffn", "512", "--vocab", "500",
    "--prompt", "64", "--decode", "4", "--threads", "1", "--machine",
];

/// Builds it as a program called `name`.
pub fn build(name: &str, package: Package, linked: Linked<'_>) -> Program {
    super::expect(Program::build(name, &["llama_style.c"], &super::ggml(package), linked, &[]))
}

/// Runs it and expects it to exit with 0.
pub fn run(program: &Program, mode: &[&str], variables: &[(&str, &OsStr)]) -> Outcome {
    let outcome = super::expect(program.run_with(&[SMALL, mode].concat(), variables));
    assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
    outcome
}

/// Returns a number that it printed.
pub fn number(outcome: &Outcome, key: &str) -> u64 {
    let value = outcome.value(key).and_then(|value| value.parse().ok());
    value.unwrap_or_else(|| panic!("no {key}: {}", outcome.describe()))
}
