//! What cargo builds for the tests: the libraries that C programs are linked with, the guard, the tool.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

use lastuse_vendor::target_folder;

use crate::{Result, folder};

/// The settings that lastuse is built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// The build of users.
    Release,
    /// Every plan is simulated before it is used, and an additional export panics.
    Checked,
}

/// The built libraries.
#[derive(Clone, Debug)]
pub struct Lastuse {
    /// `liblastuse.a`
    pub archive: PathBuf,
    /// `liblastuse.so`
    pub shared: PathBuf,
}

/// The target folder of the libraries, below that of the workspace.
const LIBRARIES: &str = "libraries";

/// Builds lastuse. Cargo knows whether it is up to date.
///
/// # Errors
/// The message of cargo.
pub fn lastuse(build: Build) -> Result<Lastuse> {
    let (profile, arguments): (&str, &[&str]) = match build {
        Build::Release => ("release", &["--release"]),
        Build::Checked => ("debug", &["--features", "panic-probe"]),
    };
    let target = target_folder().join(LIBRARIES);
    let arguments = [&["--lib", "--no-default-features", "--package", "lastuse"], arguments].concat();
    cargo_build(&target, &arguments)?;
    let folder = target.join(profile);
    Ok(Lastuse { archive: folder.join("liblastuse.a"), shared: folder.join("liblastuse.so") })
}

/// Builds `liblastuse_guard.so`, which runs the schedulers of unmodified programs under a guard.
///
/// # Errors
/// The message of cargo.
pub fn guard_library() -> Result<PathBuf> {
    let target = target_folder().join(LIBRARIES);
    cargo_build(&target, &["--release", "--lib", "--package", "lastuse-guard"])?;
    Ok(target.join("release/liblastuse_guard.so"))
}

/// Builds the command-line tool and returns its path. Cargo knows whether it is up to date.
///
/// # Errors
/// The message of cargo.
pub fn tool() -> Result<PathBuf> {
    // Not the folder of the libraries: cargo writes the shared library there too, built with more features.
    let target = target_folder().join("tool");
    // Several cores compile it, as it is not linked into programs, and with less optimization, which takes most of the
    // time. The libraries inside are those of users.
    let settings = ["--config", "profile.release.codegen-units=16", "--config", "profile.release.opt-level=1"];
    cargo_build(&target, &[&["--release", "--bin", "lastuse", "--package", "lastuse"], &settings[..]].concat())?;
    Ok(target.join("release/lastuse"))
}

/// Builds the tool and the libraries that most tests use at once, where there is no tool yet: each takes minutes of a
/// single core. What fails is built again, and reported, when it is asked for.
pub fn build_side_by_side() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if !target_folder().join("tool").exists() {
            std::thread::scope(|scope| {
                scope.spawn(tool);
                scope.spawn(|| lastuse(Build::Release));
                let _ = lastuse(Build::Checked);
            });
        }
    });
}

/// Runs `cargo build` in this workspace.
fn cargo_build(target: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--quiet", "--locked", "--manifest-path"]).arg(folder().with_file_name("Cargo.toml"));
    // The tool contains libraries that tests need too. Its build script runs in another folder.
    let libraries = target_folder().join(LIBRARIES);
    command.env("LASTUSE_LIBRARIES", std::path::absolute(&libraries).unwrap_or(libraries));
    lastuse_vendor::run(command.arg("--target-dir").arg(target).args(arguments))
}
