//! Which operations the kernels of real ggml compute correctly in the memory of a source, for both versions of ggml.

mod support;

use std::process::ExitCode;

use lastuse_c_tests::Linked;
use lastuse_vendor::Package;
use support::trials;

fn main() -> ExitCode {
    let of_version = |(label, package)| {
        let build = move || {
            let name = format!("in_place_kernels-{label}");
            support::build(&name, "in_place_kernels", &support::ggml(package), Linked::Ggml)
        };
        trials::of_cases(label, "in_place_kernels", build, |program, case| drop(support::passes(program, &[case])))
    };
    let versions = [("ggml_0_26", Package::LlamaCpp), ("ggml_0_9_5", Package::WhisperCpp)];
    trials::run(versions.into_iter().flat_map(of_version).collect())
}
