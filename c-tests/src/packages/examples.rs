//! The examples of `packaging/examples`, built by the tools of users.

use std::fs;
use std::path::Path;
use std::process::Command;

use lastuse_vendor::Ggml;

use super::prefix::{Libraries, Prefix, installed_ggml, root};
use super::project::{Project, output_of};
use crate::{Program, Result, copy_folder, folder};

/// What builds an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// CMake, which finds lastuse by its package.
    Cmake,
    /// Make, by pkg-config.
    Make,
    /// Meson, by pkg-config.
    Meson,
}

/// Builds the example of this tool, in a copy, against an installed lastuse and a shared ggml, and checks that lastuse serves
/// it. Returns what it prints.
///
/// # Errors
/// What does not hold, or the message of the tool.
pub fn check_example(tool: Tool, prefix: &Prefix, ggml: &Ggml) -> Result<String> {
    let name = format!("{tool:?}").to_lowercase();
    let copy = root().join("examples").join(&name);
    let _ = fs::remove_dir_all(&copy);
    copy_folder(&folder().with_file_name("packaging").join("examples"), &copy)?;
    let [found, pc] = installed_ggml(ggml, Libraries::Shared)?;
    let (sources, build) = (copy.join(&name), copy.join("build"));
    let with_packages = |mut command: Command| {
        let paths = [prefix.libraries().join("pkgconfig"), pc.clone()].map(|path| path.display().to_string());
        command.env("PKG_CONFIG_PATH", paths.join(":"));
        output_of(command)
    };
    let program = match tool {
        Tool::Cmake => {
            let project = Project { sources: &sources, folder: &build, generator: None };
            // Debian's CMake does not look into lib64.
            let config = prefix.libraries().join("cmake/lastuse");
            let other = prefix.libraries().ends_with("lib64").then_some(config.as_path());
            let paths = [prefix.path(), &found].into_iter().chain(other);
            let paths: Vec<String> = paths.map(|path| path.display().to_string()).collect();
            project.configure(&[format!("CMAKE_PREFIX_PATH={}", paths.join(";"))])?;
            project.build("all")?;
            build.join("app")
        }
        Tool::Make => {
            let mut command = Command::new("make");
            command.arg("-C").arg(&sources);
            with_packages(command)?;
            sources.join("app")
        }
        Tool::Meson => {
            let mut command = Command::new("meson");
            command.arg("setup").arg(&build).arg(&sources);
            with_packages(command)?;
            let mut command = Command::new("meson");
            command.arg("compile").arg("-C").arg(&build);
            output_of(command)?;
            build.join("app")
        }
    };
    is_served(&program, prefix)
}

/// Meson writes no run path of libraries that pkg-config finds, so the program is told where they are.
fn is_served(program: &Path, prefix: &Prefix) -> Result<String> {
    let folder = prefix.libraries().as_os_str();
    let outcome = Program::existing(program).run_with(&[], &[("LD_LIBRARY_PATH", folder)])?;
    let is_right = outcome.code == Some(0) && outcome.value("allocator") == Some("lastuse");
    if is_right { Ok(outcome.stdout) } else { Err(format!("{}: {}", program.display(), outcome.describe())) }
}
