//! The functions that new programs build graphs with: for both versions of ggml, with lastuse's allocator and, where
//! lastuse is switched off, with ggml's own.

mod support;

use std::ffi::OsStr;
use std::process::ExitCode;

use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::Package;
use support::trials;

const PROGRAMS: [&str; 4] = ["dependency", "outputs", "moved_outputs", "explain"];

/// Cases that need what only lastuse's plans do; the others also pass on ggml's own allocator.
const ONLY_LASTUSE: [&str; 14] = [
    // outputs
    "readers_in_no_order_are_refused",
    "overwriting_what_is_still_read_is_refused",
    "older_views_are_refused",
    "readers_that_cannot_read_gaps_are_refused",
    "later_graphs_are_checked_too",
    "gaps_elsewhere_are_refused",
    // moved_outputs
    "moved_outputs_are_noticed_where_sizes_depend_on_the_layout",
    "moved_outputs_are_noticed_where_sizes_depend_on_more",
    // explain
    "peak_is_explained",
    "allocation_does_not_change_the_explanation",
    "nothing_is_allocated_or_planned",
    "buffers_are_those_of_the_latest_reservation",
    "graph_that_is_too_large_is_refused",
    "empty_graph_has_no_peak",
];

/// A case passes on lastuse and, unless it needs that, on ggml's own allocator.
fn passes(program: &Program, case: &str) {
    support::passes(program, &[case]);
    if !ONLY_LASTUSE.contains(&case) {
        let outcome = support::expect(program.run_with(&[case], &[("LASTUSE", OsStr::new("off"))]));
        assert_eq!(outcome.code, Some(0), "LASTUSE=off: {}", outcome.describe());
    }
}

/// Builds a program with lastuse before the shared ggml, so that it can be switched off.
fn build(source: &str, package: Package, version: &str) -> Program {
    let ggml = support::ggml(package);
    assert!(ggml.version.starts_with(version), "this is ggml {}", ggml.version);
    support::build(&format!("{source}-{version}"), source, &ggml, Linked::LastuseShared(&support::checked()))
}

fn exceptions_are_cases() {
    let cases: Vec<String> = PROGRAMS.iter().flat_map(|name| support::expect(lastuse_c_tests::cases(name))).collect();
    let unknown: Vec<_> = ONLY_LASTUSE.iter().filter(|name| !cases.iter().any(|case| case == *name)).collect();
    assert!(unknown.is_empty(), "no program has the cases {unknown:?}");
}

fn main() -> ExitCode {
    let mut all = vec![trials::of_function("exceptions_are_cases", exceptions_are_cases)];
    for name in PROGRAMS {
        for (module, package, version) in
            [("ggml_0_26", Package::LlamaCpp, "0.26"), ("ggml_0_9_5", Package::WhisperCpp, "0.9.5")]
        {
            let label = format!("{name}::{module}");
            all.extend(trials::of_cases(&label, name, move || build(name, package, version), passes));
        }
    }
    trials::run(all)
}
