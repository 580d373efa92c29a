//! llama.cpp on ggml's CUDA backend, on the devices of this machine, or of another that has no Rust.

mod script;

use std::path::{Path, PathBuf};

use lastuse_c_tests::debian::{Has, Needed, check};
use lastuse_c_tests::{PlacedReport, Prepared, Result, Variable};
use lastuse_vendor::target_folder;

use crate::devices::{DevicePrograms, DeviceTests, FEW, LARGE, SMALL, build_backend, llama_on, places, promises};

pub use script::write_device_script;

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

/// What is linked with each program.
const COUNTER: &str = "hosts/cuda_kernels.c";

/// Rules that are off by default.
const ROWS: Variable = ("LASTUSE_RULES", "cuda:rows");

/// The driver launches the kernels of recorded CUDA graphs, where they cannot be counted.
const COUNTED: [Variable; 1] = [("GGML_CUDA_DISABLE_GRAPHS", "1")];

/// Branches of a graph run side by side, in an order of nodes that the backend makes for that.
const CONCURRENT: Variable = ("GGML_CUDA_GRAPH_OPT", "1");

/// Tests on each device of this machine.
///
/// # Errors
/// No device is found, or a check fails.
pub fn test() -> Result<()> {
    let llama = llama_on("cuda", &host_folder())?;
    let programs = |variables: &[Variable]| DevicePrograms::build("cuda", &llama, host_folder(), variables, &[COUNTER]);
    test_with(programs, &host_folder())
}

/// Tests with the programs of a folder that `--device-script` has written, where llama.cpp is built.
///
/// # Errors
/// No device is found, or a check fails.
pub fn test_prepared(folder: &Path) -> Result<()> {
    let folder = std::path::absolute(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let prepared = Prepared::new(&folder);
    test_with(|variables| Ok(DevicePrograms::prepared("cuda", &prepared, variables)), &folder)
}

/// The rules of `cuda:rows`, then the default ones, which `lastuse offload` promises bytes for.
fn test_with(programs: impl Fn(&[Variable]) -> Result<DevicePrograms>, folder: &Path) -> Result<()> {
    let rows = programs(&[ROWS])?;
    let mut findings = on_devices(&rows, folder, &SMALL).run()?;
    let usual = programs(&[])?;
    let all = [&SMALL[..], &[LARGE]].concat();
    for (title, programs) in [("default rules", &usual), ("branches side by side", &programs(&[CONCURRENT])?)] {
        findings.add(&format!("\n{title}\n"));
        on_devices(programs, folder, &all).run_llama_alone(&mut findings)?;
    }
    let mut report = PlacedReport::default();
    promises("cuda", &places(&["CUDA0"], FEW), &usual.placed, &mut report)?;
    findings.report(folder, &report.text(), report.wrong().len())
}

fn on_devices<'a>(programs: &'a DevicePrograms, folder: &Path, models: &'a [crate::devices::Case]) -> DeviceTests<'a> {
    DeviceTests {
        host: "cuda",
        backend: "CUDA",
        programs,
        folder: folder.to_owned(),
        models,
        unclaimed: &UNCLAIMED,
        logging: &COUNTED,
        logs_fusions: false,
        not_fused: &[],
        unfused: &[("GGML_CUDA_DISABLE_FUSION", "1")],
    }
}
