//! llama.cpp with the backend of a device.

use std::path::{Path, PathBuf};

use lastuse_c_tests::Result;
use lastuse_vendor::Package;

use crate::cmake::CmakeBuild;

/// The part of llama.cpp to build: its library, for this machine, with the backend of the CPU and one more.
const SETTINGS: [&str; 10] = [
    "CMAKE_BUILD_TYPE=Release",
    "BUILD_SHARED_LIBS=ON",
    "GGML_OPENMP=OFF",
    "GGML_CCACHE=OFF",
    "LLAMA_BUILD_APP=OFF",
    "LLAMA_BUILD_COMMON=OFF",
    "LLAMA_BUILD_TESTS=OFF",
    "LLAMA_BUILD_EXAMPLES=OFF",
    "LLAMA_BUILD_TOOLS=OFF",
    "LLAMA_OPENSSL=OFF",
];

/// Builds llama.cpp of the pinned package in `folder`, with `more` settings of CMake.
///
/// # Errors
/// The error of the build.
pub fn build_llama(host: &str, folder: &Path, more: &[String], inputs: &[PathBuf]) -> Result<()> {
    let settings: Vec<String> = SETTINGS.map(str::to_owned).into_iter().chain(more.iter().cloned()).collect();
    let sources = Package::LlamaCpp.sources()?;
    let build = CmakeBuild { host, sources: &sources, folder, settings: &settings, target: "llama", inputs };
    build.build().map(|_| ())
}
