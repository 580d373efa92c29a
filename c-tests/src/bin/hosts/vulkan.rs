//! llama.cpp on ggml's Vulkan backend, on llvmpipe: a Vulkan device that computes on the CPU and has its own memory.

use std::path::PathBuf;

use lastuse_c_tests::debian::{Has, Needed, check};
use lastuse_c_tests::{PlacedProgram, PlacedReport, Result, Variable, folder, head_on_host, on_any_machine};
use lastuse_vendor::target_folder;

use crate::devices::{DevicePrograms, DeviceTests, MANY, SMALL, build_backend, llama_on, places, promises};

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

/// The device calls itself a CPU, and such devices are taken only where they are named.
const VISIBLE: Variable = ("GGML_VK_VISIBLE_DEVICES", "0");

/// The backend logs its kernels and barriers.
const LOGGING: [Variable; 2] = [("GGML_VK_PERF_LOGGER", "1"), ("GGML_VK_SYNC_LOGGER", "1")];

/// llvmpipe runs the nodes of these one by one, or fuses a part of them.
const NOT_FUSED: [&str; 3] = ["multi_add", "rms_norm_mul_rope", "rms_norm_mul_rope_set_rows"];

/// Where tensors start on llvmpipe.
const ALIGNMENT: u64 = 16;

/// The backend runs nodes one by one.
const UNFUSED: [Variable; 1] = [("GGML_VK_DISABLE_FUSION", "1")];

fn host_folder() -> PathBuf {
    target_folder().join("hosts/vulkan")
}

/// Builds the Vulkan backend.
///
/// # Errors
/// Missing packages, or the error of the build.
pub fn build() -> Result<()> {
    check("vulkan", NEEDED)?;
    let header = folder().join("hosts/vulkan/layer_settings.h");
    let flags = format!("CMAKE_CXX_FLAGS=-include {}", header.display());
    build_backend("vulkan", &host_folder(), &["GGML_VULKAN=ON", &flags], &[header])
}

/// Tests what lastuse relies on and promises on the Vulkan device, then what `lastuse offload` promises.
///
/// # Errors
/// A failed check.
pub fn test() -> Result<()> {
    let llama = llama_on("vulkan", &host_folder())?;
    let programs = DevicePrograms::build("vulkan", &llama, host_folder(), &[VISIBLE], &[])?;
    let found = on_devices(&programs).run()?;
    // Devices that the program registers must be the only ones.
    let registered = PlacedProgram::build("placed-on-vulkan", &llama, host_folder(), vec![(VISIBLE.0, "")])?;
    let (mut report, cases) = (PlacedReport::default(), places(&["Vulkan0"], MANY));
    promises("vulkan", &cases, &programs.placed, &mut report)?;
    promises("vulkan", &on_any_machine(), &registered, &mut report)?;
    report.add_head(cases[0].name, &head_on_host(&cases[0], &programs.placed, ALIGNMENT)?);
    found.report(&host_folder(), &report.text(), report.wrong().len())
}

fn on_devices(programs: &DevicePrograms) -> DeviceTests<'_> {
    DeviceTests {
        host: "vulkan",
        backend: "Vulkan",
        programs,
        folder: host_folder(),
        models: &SMALL,
        unclaimed: &[],
        logging: &LOGGING,
        logs_fusions: true,
        not_fused: &NOT_FUSED,
        unfused: &UNFUSED,
    }
}
