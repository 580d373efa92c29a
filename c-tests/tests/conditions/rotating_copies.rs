//! A scheduler with copies in turns crashes ggml alone. It calls the allocator that it is linked with, so each has a program.

use lastuse_c_tests::Linked;
use lastuse_vendor::Package;

use crate::support::{self, build, expect, passes};

#[test]
fn rotating_copies_crash_ggml_alone() {
    let (case, lastuse) = ("inputs_of_the_program_are_computed", support::checked());
    for (package, version) in [(Package::LlamaCpp, "0.26"), (Package::LlamaCpp4, "0.28")] {
        let ggml = support::ggml(package);
        let built = |label: &str, linked| {
            let name = format!("rotating_copies-{label}-{version}");
            build(&name, "tests/conditions/rotating_copies.c", &ggml, linked)
        };
        let crashed = expect(built("upstream", Linked::Ggml).run(&[case]));
        assert!(crashed.signal.is_some(), "upstream {version} does not show the fault: {}", crashed.describe());
        passes(&built("lastuse", Linked::LastuseArchive(&lastuse)), &[case]);
    }
}
