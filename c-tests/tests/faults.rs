//! The faults of the original: each case passes on lastuse, and shows the fault on ggml's own allocator.

mod support;

use std::process::ExitCode;

use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::Package;
use support::{build, passes, trials};

/// The exit code of a case that shows the fault.
const FAULT_SHOWN: i32 = 42;

fn lastuse_does_not_have_it(program: &Program, case: &str) {
    passes(program, &[case, "lastuse"]);
    let upstream = support::expect(program.run(&[case, "upstream"]));
    let shown = upstream.code == Some(FAULT_SHOWN) || upstream.signal.is_some();
    assert!(shown, "upstream does not show the fault: {}", upstream.describe());
}

/// A scheduler calls the allocator that it is linked with, so each has a program.
fn rotating_copies_crash_ggml_alone() {
    let (case, lastuse) = ("inputs_of_the_program_are_computed", support::checked());
    for (package, version) in [(Package::LlamaCpp, "0.26"), (Package::LlamaCpp4, "0.28")] {
        let ggml = support::ggml(package);
        let built = |label: &str, linked| {
            build(&format!("rotating_copies-{label}-{version}"), "rotating_copies", &ggml, linked)
        };
        let crashed = support::expect(built("upstream", Linked::Ggml).run(&[case]));
        assert!(crashed.signal.is_some(), "upstream {version} does not show the fault: {}", crashed.describe());
        passes(&built("lastuse", Linked::LastuseArchive(&lastuse)), &[case]);
    }
}

fn main() -> ExitCode {
    let build = || support::build_with_both("faults");
    let mut tests = trials::of_cases("faults", "faults", build, lastuse_does_not_have_it);
    tests.push(trials::of_function("rotating_copies_crash_ggml_alone", rotating_copies_crash_ggml_alone));
    trials::run(tests)
}
