//! The registry packages that hold the sources.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;

/// A registry package that carries real ggml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Package {
    /// llama.cpp with ggml 0.26.
    LlamaCpp,
    /// A later llama.cpp with ggml 0.28, without the patches that its package would apply.
    LlamaCpp4,
    /// An older llama.cpp with ggml 0.20, whose RPC backend asks a server for the size of a tensor each time.
    LlamaCppOlder,
    /// whisper.cpp with ggml 0.9.5, which numbers its operations differently.
    WhisperCpp,
    /// stable-diffusion.cpp with ggml 0.12, whose names of tensors are twice as long.
    StableDiffusionCpp,
}

impl Package {
    /// Its name in the registry.
    pub fn name(self) -> &'static str {
        match self {
            Self::LlamaCpp => "llama-cpp-sys-2",
            Self::LlamaCpp4 | Self::LlamaCppOlder => "llama-cpp-sys-4",
            Self::WhisperCpp => "whisper-rs-sys",
            Self::StableDiffusionCpp => "diffusion-rs-sys",
        }
    }

    /// The folder of the sources inside the package.
    fn folder(self) -> &'static str {
        match self {
            Self::LlamaCpp | Self::LlamaCpp4 | Self::LlamaCppOlder => "llama.cpp",
            Self::WhisperCpp => "whisper.cpp",
            Self::StableDiffusionCpp => "stable-diffusion.cpp",
        }
    }

    /// How its ggml is compiled: as users do, unless kernels are neither tested nor timed on it.
    pub(crate) fn optimization(self) -> &'static str {
        if self == Self::LlamaCpp4 { "-O1" } else { "-O3" }
    }

    /// Returns the manifest that pins it, relative to this crate. Packages that link libraries of one name cannot be in
    /// one manifest.
    fn manifest(self) -> &'static str {
        match self {
            Self::LlamaCpp | Self::WhisperCpp => "packages/Cargo.toml",
            Self::LlamaCpp4 => "packages/llama-cpp-sys-4/Cargo.toml",
            Self::LlamaCppOlder => "packages/llama-cpp-sys-4-0.6/Cargo.toml",
            Self::StableDiffusionCpp => "packages/diffusion-rs-sys/Cargo.toml",
        }
    }

    /// Returns the folder of the sources; fetches the package if necessary.
    ///
    /// # Errors
    /// When cargo cannot fetch the package, or its checksum is not the pinned one.
    pub fn sources(self) -> Result<PathBuf> {
        let package = self.metadata()?;
        let manifest = package["manifest_path"].as_str();
        let manifest = manifest.ok_or_else(|| format!("cargo metadata gives no folder of {}", self.name()))?;
        Ok(Path::new(manifest).with_file_name(self.folder()))
    }

    /// Returns the version of the package, which is not that of the ggml inside.
    ///
    /// # Errors
    /// When cargo cannot fetch the package.
    pub fn version(self) -> Result<String> {
        let package = self.metadata()?;
        let version = package["version"].as_str().map(str::to_owned);
        version.ok_or_else(|| format!("cargo metadata gives no version of {}", self.name()))
    }

    /// Returns what `cargo metadata` says of the package.
    fn metadata(self) -> Result<serde_json::Value> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.manifest());
        let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["metadata", "--locked", "--format-version=1", "--filter-platform", &target, "--manifest-path"])
            .arg(&manifest)
            .output()
            .map_err(|error| format!("cannot run cargo: {error}"))?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr);
            return Err(format!("cannot fetch the packages of {}: {reason}", manifest.display()));
        }
        let metadata: serde_json::Value =
            serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
        let mut packages = metadata["packages"].as_array().into_iter().flatten();
        let found = packages.find(|package| package["name"] == self.name());
        found.cloned().ok_or_else(|| format!("{} does not name {}", manifest.display(), self.name()))
    }
}

/// Cargo's target folder of this workspace.
pub fn target_folder() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target"),
    }
}
