//! Programs whose heap and data lie below 2^32, since they are not position-independent, and programs without any shared
//! library: what works elsewhere works there.

mod support;

use std::process::ExitCode;

use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::Package;
use support::{expect, passes, trials};

/// The name of the tests, the ggml, and the flags of compiler and linker.
const WAYS: [(&str, Package, &[&str]); 5] = [
    ("position_independent", Package::LlamaCpp, &[]),
    ("not_position_independent", Package::LlamaCpp, &["-no-pie", "-DLOW_ADDRESSES"]),
    ("not_position_independent_on_ggml_0_9_5", Package::WhisperCpp, &["-no-pie", "-DLOW_ADDRESSES"]),
    ("static", Package::LlamaCpp, &["-static", "-DLOW_ADDRESSES"]),
    ("static_on_ggml_0_9_5", Package::WhisperCpp, &["-static", "-DLOW_ADDRESSES"]),
];

/// The programs; all but the first run in the other ways elsewhere.
const PROGRAMS: [&str; 2] = ["low_addresses", "lifecycle"];

fn build(label: &str, name: &str, package: Package, flags: &[&str]) -> Program {
    let (ggml, lastuse) = (support::ggml(package), support::checked());
    let sources = [format!("programs/{name}.c")];
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    expect(Program::build(&format!("{name}-{label}"), &sources, &ggml, Linked::Both(&lastuse), flags))
}

fn main() -> ExitCode {
    let mut tests = Vec::new();
    for (label, package, flags) in WAYS {
        for &name in &PROGRAMS[..if flags.is_empty() { 1 } else { PROGRAMS.len() }] {
            let build = move || build(label, name, package, flags);
            let run = |program: &Program, case: &str| _ = passes(program, &[case]);
            tests.extend(trials::of_cases(&format!("{label}::{name}"), name, build, run));
        }
    }
    trials::run(tests)
}
