//! llama.cpp with the backend of a device.

use std::path::{Path, PathBuf};

use lastuse_c_tests::Result;
use lastuse_c_tests::cmake::CmakeBuild;
use lastuse_vendor::{Llama, Package, llama_with_backend};

use crate::llama::SETTINGS;

/// Builds a backend of the pinned llama.cpp in `folder`, by settings of CMake: `ggml-vulkan` and the like. All else is what
/// other tests are linked with.
///
/// # Errors
/// The error of the build.
pub fn build_backend(backend: &str, folder: &Path, more: &[&str], inputs: &[PathBuf]) -> Result<()> {
    let settings = [&SETTINGS[..], &["BUILD_SHARED_LIBS=ON"], more].concat();
    let (sources, target) = (Package::LlamaCpp.sources()?, format!("ggml-{backend}"));
    CmakeBuild { host: backend, sources: &sources, folder, settings: &settings, target: &target, inputs }.build()
}

/// Returns llama.cpp on the backend that was built in `folder`.
///
/// # Errors
/// When something cannot be compiled.
pub fn llama_on(backend: &str, folder: &Path) -> Result<Llama> {
    llama_with_backend(&folder.join("build/bin"), backend)
}
