//! llama.cpp with the backend of a device.

use std::path::{Path, PathBuf};

use lastuse_c_tests::Result;
use lastuse_vendor::Package;

use crate::cmake::CmakeBuild;
use crate::llama::SETTINGS;

/// Builds llama.cpp of the pinned package in `folder`: its library, with the backend of the CPU and, by `more` settings of
/// CMake, another one.
///
/// # Errors
/// The error of the build.
pub fn build_llama(host: &str, folder: &Path, more: &[&str], inputs: &[PathBuf]) -> Result<()> {
    let settings = [&SETTINGS[..], &["BUILD_SHARED_LIBS=ON"], more].concat();
    let sources = Package::LlamaCpp.sources()?;
    CmakeBuild { host, sources: &sources, folder, settings: &settings, target: "llama", inputs }.build()
}
