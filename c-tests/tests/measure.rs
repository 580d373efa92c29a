//! What a graph is said to need is what it takes: with two versions of ggml, by lastuse and by ggml's own allocator.

mod support;

use std::ffi::OsStr;

use lastuse_c_tests::{Linked, Outcome, Program};
use lastuse_vendor::Package;

const OFF: &[(&str, &str)] = &[("LASTUSE", "off")];

fn run(package: Package, name: &str, variables: &[(&str, &str)]) -> Outcome {
    let (ggml, lastuse) = (support::ggml(package), support::release());
    let sources = ["programs/measure_and_reserve.c"];
    let program = support::expect(Program::build(name, &sources, &ggml, Linked::LastuseShared(&lastuse), &[]));
    let variables: Vec<(&str, &OsStr)> = variables.iter().map(|&(name, value)| (name, OsStr::new(value))).collect();
    let outcome = support::expect(program.run_with(&[], &variables));
    assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
    outcome
}

#[test]
fn lastuse_tells_its_own_sizes_and_lower_bounds() {
    for (package, name) in [(Package::LlamaCpp, "measure-0.26"), (Package::WhisperCpp, "measure-0.9.5")] {
        let outcome = run(package, name, &[]);
        assert_eq!(outcome.value("measured"), Some("1"), "{}", outcome.describe());
        assert_eq!(outcome.value("sizes"), outcome.value("reserved"));
        assert_eq!(outcome.value("lower_bounds"), outcome.value("reserved_bound"));
        assert_ne!(outcome.value("lower_bounds"), Some("0 0"));
    }
}

#[test]
fn switched_off_tells_the_sizes_of_ggml() {
    for (package, name) in [(Package::LlamaCpp, "measure-off-0.26"), (Package::WhisperCpp, "measure-off-0.9.5")] {
        let (on, off) = (run(package, name, &[]), run(package, name, OFF));
        assert_eq!(off.value("measured"), Some("1"), "{}", off.describe());
        assert_eq!(off.value("sizes"), off.value("reserved"));
        assert_eq!(off.value("lower_bounds"), Some("0 0"));
        assert_ne!(off.value("sizes"), on.value("sizes"), "both allocators do the same: the graph shows nothing");
    }
}
