//! The command-line tool as users build it.

use std::path::PathBuf;
use std::process::Command;

use lastuse_vendor::target_folder;

use crate::{Result, folder};

/// Builds the tool. Cargo knows what is up to date.
///
/// # Errors
/// What cargo said.
pub fn tool() -> Result<PathBuf> {
    // Not the folder of the libraries: cargo puts the shared library of any build there, also of one with more features.
    let target = target_folder().join("tool");
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--locked", "--release", "--bin", "lastuse"])
        .args(["--package", "lastuse", "--manifest-path"])
        .arg(folder().with_file_name("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("the tool does not build:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(target.join("release/lastuse"))
}
