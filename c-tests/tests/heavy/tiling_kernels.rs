//! Which operations the kernels of real ggml compute in tiles with the bits of the whole, for both versions of ggml.

use lastuse_c_tests::Linked;
use lastuse_vendor::Package;

use crate::support::{self, all_cases_pass, build};

fn tiles_have_the_bits_of_the_whole(name: &str, package: Package) {
    let ggml = support::ggml(package);
    all_cases_pass(&build(name, "tests/heavy/tiling_kernels.c", &ggml, Linked::Ggml), &[]);
}

#[test]
fn ggml_0_26() {
    tiles_have_the_bits_of_the_whole("tiling_kernels-0.26", Package::LlamaCpp);
}

#[test]
fn ggml_0_9_5() {
    tiles_have_the_bits_of_the_whole("tiling_kernels-0.9.5", Package::WhisperCpp);
}
