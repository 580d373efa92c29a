//! Builds that need an old glibc alone: by cargo-zigbuild, which links with zig. Both are Python packages.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use lastuse_c_tests::packages::{output_of, packages_folder};
use lastuse_c_tests::{Result, folder};

use crate::files::write;
use crate::python::Environment;
use crate::target::Target;

/// The glibc that programs need at least: the oldest that Rust supports.
pub const GLIBC: &str = "2.17";

const PINNED: [&str; 2] = ["ziglang==0.17.1", "cargo-zigbuild==0.24.1"];

/// Both, in an environment of Python's that nothing else uses.
#[derive(Debug)]
pub struct Zig {
    environment: Environment,
}

impl Zig {
    /// Installs both unless they are there.
    ///
    /// # Errors
    /// The message of Python or of pip.
    pub fn install() -> Result<Self> {
        Environment::with(packages_folder().join("tools/venv"), &PINNED).map(|environment| Self { environment })
    }

    /// The program that takes the arguments of cargo.
    pub fn cargo(&self) -> PathBuf {
        self.environment.program("cargo-zigbuild")
    }

    /// Writes a program that calls a compiler of zig, `cc` or `c++`, for a system, and returns its path.
    ///
    /// # Errors
    /// The error of the system.
    pub fn compiler(&self, name: &str, triple: &str) -> Result<PathBuf> {
        let script = packages_folder().join("tools").join(format!("zig-{name}-{triple}"));
        let python = self.environment.program("python");
        let text = format!("#!/bin/sh\nexec '{}' -m ziglang {name} -target {triple} \"$@\"\n", python.display());
        write(&script, text.as_bytes())?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))
            .map_err(|error| format!("{}: {error}", script.display()))?;
        Ok(script)
    }

    /// Where cargo builds the libraries.
    pub fn target_folder() -> PathBuf {
        packages_folder().join("zig")
    }

    /// Where cargo builds the tool. The library has another feature for it, and a file of the same name.
    fn tool_folder() -> PathBuf {
        packages_folder().join("zig-tool")
    }

    /// The name of a target for cargo-zigbuild.
    pub fn target(target: &Target) -> String {
        format!("{}.{GLIBC}", target.triple)
    }

    /// A command that finds zig, and whose builds name no folder of this machine.
    pub fn command(&self, program: &Path) -> Command {
        let mut path = self.environment.programs().into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = Command::new(program);
        let flags = hidden_folders().map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display()));
        command.env("PATH", path).env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
        command
    }

    /// Has cargo build packages, and returns the folder with what it has built.
    ///
    /// # Errors
    /// The standard library for the target is missing; the message of cargo.
    pub fn build(&self, target: &Target, packages: &[&str]) -> Result<PathBuf> {
        check_standard_library(target.triple)?;
        let mut command = self.command(&self.cargo());
        command.args(["build", "--quiet", "--release", "--locked", "--no-default-features", "--manifest-path"]);
        command.arg(folder().with_file_name("Cargo.toml")).arg("--target-dir").arg(Self::tool_folder());
        command.arg(format!("--target={}", Self::target(target)));
        command.args(packages.iter().flat_map(|name| ["--package", name]));
        output_of(command)?;
        Ok(Self::tool_folder().join(target.triple).join("release"))
    }
}

/// Folders of this machine that programs would name, with the names that they have instead.
pub fn hidden_folders() -> [(PathBuf, &'static str); 2] {
    let home = || std::env::home_dir().unwrap_or_default().join(".cargo");
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from);
    let repository = folder().parent().unwrap_or(folder()).to_owned();
    [(cargo, "/cargo"), (repository, "/lastuse")]
}

/// Checks that Rust has its standard library for a system.
///
/// # Errors
/// The command that adds it.
pub fn check_standard_library(triple: &str) -> Result<()> {
    let mut command = Command::new("rustc");
    command.args(["--print", "target-libdir", "--target", triple]);
    let text = output_of(command)?;
    if Path::new(text.trim()).is_dir() {
        return Ok(());
    }
    Err(format!("Rust's standard library for {0} is missing: rustup target add {0}", triple))
}
