//! Which operations the kernels of real ggml compute in tiles with the bits of the whole, for both versions of ggml.

mod support;

use std::process::ExitCode;

use lastuse_c_tests::Linked;
use lastuse_vendor::Package;
use support::trials;

fn main() -> ExitCode {
    let of_version = |(label, package)| {
        let build = move || {
            let name = format!("tiling_kernels-{label}");
            support::build(&name, "tiling_kernels", &support::ggml(package), Linked::Ggml)
        };
        trials::of_cases(label, "tiling_kernels", build, |program, case| drop(support::passes(program, &[case])))
    };
    let versions = [("ggml_0_26", Package::LlamaCpp), ("ggml_0_9_5", Package::WhisperCpp)];
    trials::run(versions.into_iter().flat_map(of_version).collect())
}
