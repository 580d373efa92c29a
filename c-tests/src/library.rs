//! lastuse as C programs get it: a static and a shared library.

use std::path::PathBuf;
use std::process::Command;

use lastuse_vendor::target_folder;

use crate::{Result, folder};

/// How lastuse is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// As users build it.
    Release,
    /// Every plan is simulated before it is used.
    Checked,
    /// As users build it, with one more export that panics.
    PanicProbe,
}

/// The built libraries.
#[derive(Clone, Debug)]
pub struct Lastuse {
    /// `liblastuse.a`
    pub archive: PathBuf,
    /// `liblastuse.so`
    pub shared: PathBuf,
}

/// Builds lastuse. Cargo knows what is up to date.
///
/// # Errors
/// What cargo said.
pub fn lastuse(build: Build) -> Result<Lastuse> {
    let (folder_name, profile, arguments): (&str, &str, &[&str]) = match build {
        Build::Release => ("libraries", "release", &["--release"]),
        Build::Checked => ("libraries", "debug", &[]),
        Build::PanicProbe => ("libraries-panic-probe", "release", &["--release", "--features", "panic-probe"]),
    };
    let target = target_folder().join(folder_name);
    let manifest = folder().with_file_name("Cargo.toml");
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--locked", "--lib", "--no-default-features", "--package", "lastuse"])
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(&target)
        .args(arguments)
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("lastuse does not build:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    let folder = target.join(profile);
    Ok(Lastuse { archive: folder.join("liblastuse.a"), shared: folder.join("liblastuse.so") })
}

/// Builds the library that puts guards into the schedulers of programs that know nothing of them: `liblastuse_guard.so`.
///
/// # Errors
/// What cargo said.
pub fn guard_library() -> Result<PathBuf> {
    let target = target_folder().join("libraries");
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--locked", "--release", "--package", "lastuse-guard", "--manifest-path"])
        .arg(folder().with_file_name("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("lastuse-guard does not build:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(target.join("release/liblastuse_guard.so"))
}
