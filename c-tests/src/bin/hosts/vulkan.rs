//! llama.cpp on ggml's Vulkan backend, on llvmpipe: a Vulkan device that computes on the CPU and has memory of its own.

use std::fs;
use std::path::PathBuf;

use lastuse_c_tests::{
    DENSE, PlacedCase, PlacedProgram, PlacedReport, PlacedRow, Result, folder, head_on_host, on_any_machine, sweep,
};
use lastuse_vendor::{Ggml, Llama, Package, ggml, target_folder};

use crate::cmake::CmakeBuild;
use crate::packages::{Has, Needed, check};

const NEEDED: &[Needed] = &[
    Needed { package: "cmake", has: Has::Program("cmake") },
    Needed { package: "glslc", has: Has::Program("glslc") },
    Needed { package: "libvulkan-dev", has: Has::File(&["/usr/include/vulkan/vulkan.hpp"]) },
    Needed {
        package: "mesa-vulkan-drivers",
        has: Has::File(&["/usr/share/vulkan/icd.d/lvp_icd*", "/etc/vulkan/icd.d/lvp_icd*"]),
    },
    Needed { package: "spirv-headers", has: Has::File(&["/usr/include/spirv/unified1/spirv.hpp"]) },
];

/// What is built of llama.cpp: its library, for this machine, with two backends.
const SETTINGS: [&str; 11] = [
    "CMAKE_BUILD_TYPE=Release",
    "BUILD_SHARED_LIBS=ON",
    "GGML_VULKAN=ON",
    "GGML_OPENMP=OFF",
    "GGML_CCACHE=OFF",
    "LLAMA_BUILD_APP=OFF",
    "LLAMA_BUILD_COMMON=OFF",
    "LLAMA_BUILD_TESTS=OFF",
    "LLAMA_BUILD_EXAMPLES=OFF",
    "LLAMA_BUILD_TOOLS=OFF",
    "LLAMA_OPENSSL=OFF",
];

/// Where tensors start on llvmpipe.
const ALIGNMENT: u64 = 16;

/// The device calls itself a CPU, and such devices are taken only where they are named.
const VISIBLE: (&str, &str) = ("GGML_VK_VISIBLE_DEVICES", "0");

fn host_folder() -> PathBuf {
    target_folder().join("hosts/vulkan")
}

/// Builds llama.cpp with the Vulkan backend.
///
/// # Errors
/// Missing packages, or what the build says.
pub fn build() -> Result<()> {
    check("vulkan", NEEDED)?;
    let header = folder().join("hosts/vulkan/layer_settings.h");
    let mut settings: Vec<String> = SETTINGS.map(str::to_owned).to_vec();
    settings.push(format!("CMAKE_CXX_FLAGS=-include {}", header.display()));
    let (sources, host) = (Package::LlamaCpp.sources()?, host_folder());
    let build = CmakeBuild {
        host: "vulkan",
        sources: &sources,
        folder: &host,
        settings: &settings,
        target: "llama",
        inputs: &[header],
    };
    build.build().map(|_| ())
}

/// Asks for placements on the Vulkan device, and on devices that the program registers, and runs llama.cpp with each.
///
/// # Errors
/// What is not as promised.
pub fn test() -> Result<()> {
    let own = ggml(Package::LlamaCpp)?;
    let sources = Package::LlamaCpp.sources()?;
    let include_flags = ["include", "ggml/include"].map(|part| format!("-I{}", sources.join(part).display())).into();
    let llama = Llama { ggml: Ggml { libraries: host_folder().join("build/bin"), ..own }, include_flags };
    // Devices that the program registers must be the only ones.
    let registered = PlacedProgram::build("placed-on-vulkan", &llama, host_folder(), vec![(VISIBLE.0, "")])?;
    let vulkan = PlacedProgram::build("placed-on-vulkan", &llama, host_folder(), vec![VISIBLE])?;
    let mut report = PlacedReport::default();
    for case in on_vulkan() {
        run(&case, &vulkan, &mut report)?;
    }
    for case in on_any_machine() {
        run(&case, &registered, &mut report)?;
    }
    let whole = on_vulkan()[0];
    report.add_head("dense, Vulkan", &head_on_host(&whole, &vulkan, ALIGNMENT)?);
    let text = report.text();
    print!("{text}");
    let file = host_folder().join("report.txt");
    fs::write(&file, &text).map_err(|error| format!("{}: {error}", file.display()))?;
    match report.wrong().len() {
        0 => Ok(()),
        count => Err(format!("{count} results are not as promised, see above")),
    }
}

/// Returns a dense model on the Vulkan device. Mixtures of experts crash some versions of llvmpipe, also without lastuse.
fn on_vulkan() -> Vec<PlacedCase> {
    let dense = PlacedCase {
        name: "dense, Vulkan",
        model: DENSE,
        program: "-t 1",
        devices: &["Vulkan0"],
        properties: "",
        has_pipelines: false,
        place: "",
        parts: &[0, 10, 20, 50, 120, 300, 500, 700, 970],
    };
    let few = PlacedCase { parts: &[0, 20, 120, 500, 970], ..dense };
    vec![
        dense,
        PlacedCase { name: "dense, Vulkan, no operator offload", place: "--no-op-offload", ..few },
        PlacedCase { name: "dense, Vulkan, no flash attention", program: "-t 1 -fa off", ..few },
        PlacedCase { name: "dense, Vulkan, whole layers", place: "--layers", ..few },
    ]
}

fn run(case: &PlacedCase, program: &PlacedProgram, report: &mut PlacedReport) -> Result<()> {
    eprintln!("[vulkan] {}", case.name);
    let progress = |row: &PlacedRow| {
        let budgets: Vec<String> = row.budgets.iter().map(u64::to_string).collect();
        let is_right = if row.wrong.is_empty() { "as promised" } else { "NOT as promised" };
        eprintln!("[vulkan]   {} bytes: {is_right}", budgets.join(" + "));
    };
    let rows = sweep(case, program, progress)?;
    report.add(case, &rows);
    Ok(())
}
