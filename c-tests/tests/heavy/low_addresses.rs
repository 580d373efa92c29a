//! Programs whose heap and data lie below 2^32, since they are not position-independent, and programs without any shared
//! library: what works elsewhere works there.

use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::Package;

use crate::support::{self, all_cases_pass, expect};

/// Runs the program of this topic, and one that runs in the usual way elsewhere.
fn works(label: &str, package: Package, flags: &[&str]) {
    let (ggml, lastuse) = (support::ggml(package), support::checked());
    for (name, source) in [("low_addresses", "tests/heavy/low_addresses.c"), ("lifecycle", "programs/lifecycle.c")] {
        let program =
            Program::build(&format!("{name}-{label}"), &[source], &ggml, Linked::BothArchives(&lastuse), flags);
        all_cases_pass(&expect(program), &[]);
    }
}

#[test]
fn position_independent() {
    works("position_independent", Package::LlamaCpp, &[]);
}

#[test]
fn not_position_independent() {
    let flags = ["-no-pie", "-DLOW_ADDRESSES"];
    works("not_position_independent", Package::LlamaCpp, &flags);
    works("not_position_independent_on_ggml_0_9_5", Package::WhisperCpp, &flags);
}

#[test]
fn without_shared_libraries() {
    let flags = ["-static", "-DLOW_ADDRESSES"];
    works("static", Package::LlamaCpp, &flags);
    works("static_on_ggml_0_9_5", Package::WhisperCpp, &flags);
}
