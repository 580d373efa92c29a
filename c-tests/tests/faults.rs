//! The faults of the original: each case passes on lastuse, and shows the fault on ggml's own allocator.

mod support;

use std::process::ExitCode;

use lastuse_c_tests::Program;
use support::trials;

/// The exit code of a case that shows the fault.
const FAULT_SHOWN: i32 = 42;

fn lastuse_does_not_have_it(program: &Program, case: &str) {
    support::passes(program, &[case, "lastuse"]);
    let upstream = support::expect(program.run(&[case, "upstream"]));
    let shown = upstream.code == Some(FAULT_SHOWN) || upstream.signal.is_some();
    assert!(shown, "upstream does not show the fault: {}", upstream.describe());
}

fn main() -> ExitCode {
    let build = || support::build_with_both("faults");
    trials::run(trials::of_cases("faults", "faults", build, lastuse_does_not_have_it))
}
