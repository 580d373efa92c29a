//! llama.cpp on ggml's CUDA backend, on the devices of this machine.

use std::path::PathBuf;

use lastuse_c_tests::Result;
use lastuse_c_tests::debian::{Has, Needed, check};
use lastuse_vendor::target_folder;

use crate::devices::{DeviceTests, build_backend, llama_on};

const NEEDED: &[Needed] = &[
    Needed { package: "cmake", has: Has::Program("cmake") },
    Needed { package: "nvidia-cuda-toolkit", has: Has::Program("nvcc") },
];

/// What `scans`, `copies` and `concat` would compute in place.
const UNCLAIMED: [&str; 14] = [
    "CUMSUM",
    "SOLVE_TRI",
    "CROSS_ENTROPY_LOSS_BACK",
    "CONT, DUP",
    "CONT, DUP of quantized types",
    "CONT to another shape, both contiguous",
    "CONT of a transposed column",
    "CONCAT along the slowest dimension",
    "CONCAT of quantized types along the slowest dimension",
    "CPY over its destination",
    "CPY of quantized types over its destination",
    "CPY to another shape, both contiguous",
    "SET",
    "ACC",
];

fn host_folder() -> PathBuf {
    target_folder().join("hosts/cuda")
}

/// Builds the CUDA backend.
///
/// # Errors
/// Missing packages, or the error of the build.
pub fn build() -> Result<()> {
    check("cuda", NEEDED)?;
    build_backend("cuda", &host_folder(), &["GGML_CUDA=ON"], &[])
}

/// Tests the rules that `cuda:rows` switches on, on each device.
///
/// # Errors
/// When there is no device, or a check fails.
pub fn test() -> Result<()> {
    let llama = llama_on("cuda", &host_folder())?;
    let variables = vec![("LASTUSE_RULES", "cuda:rows")];
    let tests = DeviceTests {
        host: "cuda",
        backend: "CUDA",
        llama: &llama,
        folder: host_folder(),
        variables,
        unclaimed: &UNCLAIMED,
        logging: &[],
        not_fused: &[],
        unfused: &[("GGML_CUDA_DISABLE_FUSION", "1")],
    };
    tests.run()?.report(&host_folder(), "", 0)
}
