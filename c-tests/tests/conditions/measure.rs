//! The measured size of a graph is the reserved one: with two versions of ggml, by lastuse and by ggml's own allocator.

use std::ffi::OsStr;

use crate::support;
use lastuse_c_tests::{Linked, Outcome};
use lastuse_vendor::Package;

const OFF: &[(&str, &str)] = &[("LASTUSE", "off")];

fn run(package: Package, name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Outcome {
    let (ggml, lastuse) = (support::ggml(package), support::release());
    let program = support::build(name, "tests/conditions/measure.c", &ggml, Linked::LastuseShared(&lastuse));
    let variables: Vec<(&str, &OsStr)> = variables.iter().map(|&(name, value)| (name, OsStr::new(value))).collect();
    let outcome = support::expect(program.run_with(arguments, &variables));
    assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
    outcome
}

#[test]
fn lastuse_returns_its_own_sizes_and_lower_bounds() {
    for (package, name) in [(Package::LlamaCpp, "measure-0.26"), (Package::WhisperCpp, "measure-0.9.5")] {
        let outcome = run(package, name, &[], &[]);
        assert_eq!(outcome.value("measured"), Some("1"), "{}", outcome.describe());
        assert_eq!(outcome.value("sizes"), outcome.value("reserved"));
        assert_eq!(outcome.value("lower_bounds"), outcome.value("reserved_bound"));
        assert_ne!(outcome.value("lower_bounds"), Some("0 0"));
    }
}

#[test]
fn switched_off_returns_the_sizes_of_ggml() {
    for (package, name) in [(Package::LlamaCpp, "measure-off-0.26"), (Package::WhisperCpp, "measure-off-0.9.5")] {
        let (on, off) = (run(package, name, &[], &[]), run(package, name, &[], OFF));
        assert_eq!(off.value("measured"), Some("1"), "{}", off.describe());
        assert_eq!(off.value("sizes"), off.value("reserved"));
        assert_eq!(off.value("lower_bounds"), Some("0 0"));
        assert_ne!(
            off.value("sizes"),
            on.value("sizes"),
            "both allocators need equal sizes: the graph shows no difference"
        );
    }
}

/// Only lastuse recognizes tensors that their contexts have yet to allocate.
#[test]
fn switched_off_needs_realized_contexts() {
    let on = run(Package::LlamaCpp, "measure-weights", &["weights"], &[]);
    assert_eq!((on.value("measured"), on.value("sizes")), (Some("1"), on.value("reserved")), "{}", on.describe());
    let off = run(Package::LlamaCpp, "measure-weights", &["weights"], OFF);
    assert_eq!((off.value("measured"), off.value("sizes")), (Some("0"), Some("1 1")), "{}", off.describe());
    assert!(off.value("error").is_some_and(|error| error.contains("lastuse_context_realize")), "{}", off.describe());
}
