//! Artifacts that cargo builds for the tests: the libraries that C programs are linked with, the guard, the tool.

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
    /// The archive is one object: a program takes all functions from it, or none.
    pub is_one_object: bool,
}

/// The target folder of the libraries, below that of the workspace.
const LIBRARIES: &str = "libraries";

/// Where the tool is installed for the tests.
const TOOL: &str = "tool";

/// Builds lastuse. Cargo knows whether it is up to date.
///
/// # Errors
/// The message of cargo.
pub fn lastuse(build: Build) -> Result<Lastuse> {
    let folder = match build {
        Build::Release => {
            let target = target_folder().join(LIBRARIES);
            cargo_build(&target, &["--release", "--lib", "--package", "lastuse"])?;
            target.join("release")
        }
        Build::Checked => build_as_tests_do()?,
    };
    let is_one_object = build == Build::Release;
    Ok(Lastuse { archive: folder.join("liblastuse.a"), shared: folder.join("liblastuse.so"), is_one_object })
}

/// Builds libraries and tool where `cargo test` builds, and with the features of all packages, so that nothing is compiled
/// twice, and returns their folder.
fn build_as_tests_do() -> Result<PathBuf> {
    cargo_build(&target_folder(), &["--workspace", "--lib", "--bin", "lastuse"])?;
    Ok(target_folder().join("debug"))
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

/// Builds `liblastuse_measure.so`, with which programs run without memory for their buffers.
///
/// # Errors
/// The message of cargo.
pub fn measure_library() -> Result<PathBuf> {
    let target = target_folder().join(LIBRARIES);
    cargo_build(&target, &["--release", "--lib", "--package", "lastuse-measure"])?;
    Ok(target.join("release/liblastuse_measure.so"))
}

/// Builds the command-line tool and returns its path: in a folder `bin` next to the folder `lib` of its libraries, as
/// where a package is installed.
///
/// # Errors
/// The message of cargo, or of a file that cannot be copied.
pub fn tool() -> Result<PathBuf> {
    let built = build_as_tests_do()?;
    let root = target_folder().join(TOOL);
    for library in [lastuse(Build::Release)?.shared, guard_library()?, measure_library()?] {
        install(&library, &root.join("lib"))?;
    }
    install(&built.join("lastuse"), &root.join("bin"))
}

/// Builds the tool as `cargo install` does, with its libraries inside, and returns its path.
///
/// # Errors
/// The message of cargo.
pub fn tool_with_libraries_inside() -> Result<PathBuf> {
    // With less optimization, which takes most of the time, and by all cores, as it is not linked into programs. The libraries
    // are those of users.
    let settings = ["--config", "profile.release.codegen-units=16", "--config", "profile.release.opt-level=1"];
    let target = target_folder().join("installed");
    let mut command =
        cargo(&target, &[&["--release", "--bin", "lastuse", "--package", "lastuse-tool"], &settings[..]].concat());
    // The build script runs in another folder.
    let libraries = target_folder().join(LIBRARIES);
    lastuse_vendor::run(command.env("LASTUSE_LIBRARIES", std::path::absolute(&libraries).unwrap_or(libraries)))?;
    Ok(target.join("release/lastuse"))
}

/// Copies a file to a folder, unless an equal one is there, and returns its path. Others may run the earlier one.
fn install(file: &Path, folder: &Path) -> Result<PathBuf> {
    let installed = folder.join(file.file_name().unwrap_or_default());
    let failed =
        |error: std::io::Error| format!("{} cannot be copied to {}: {error}", file.display(), folder.display());
    let content = std::fs::read(file).map_err(failed)?;
    if std::fs::read(&installed).is_ok_and(|earlier| earlier == content) {
        return Ok(installed);
    }
    std::fs::create_dir_all(folder).map_err(failed)?;
    let fresh = folder.join(format!(".{}-{:?}", std::process::id(), std::thread::current().id()));
    std::fs::copy(file, &fresh).and_then(|_| std::fs::rename(&fresh, &installed)).map_err(failed)?;
    Ok(installed)
}

/// Builds the libraries that most tests use at once, where there is no tool yet: each takes minutes of a single core. What
/// fails is built again, and reported, when it is asked for.
pub fn build_side_by_side() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if !target_folder().join(TOOL).exists() {
            std::thread::scope(|scope| {
                scope.spawn(|| lastuse(Build::Release));
                let _ = tool();
            });
        }
    });
}

/// Runs `cargo build` in this workspace.
fn cargo_build(target: &Path, arguments: &[&str]) -> Result<()> {
    lastuse_vendor::run(&mut cargo(target, arguments))
}

fn cargo(target: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--quiet", "--locked", "--manifest-path"]).arg(folder().with_file_name("Cargo.toml"));
    command.arg("--target-dir").arg(target).args(arguments);
    command
}
