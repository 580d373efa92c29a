//! Projects that CMake builds.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, clear_variables};

/// A project, and where it is built.
#[derive(Clone, Copy, Debug)]
pub struct Project<'a> {
    /// The folder with `CMakeLists.txt`.
    pub sources: &'a Path,
    /// The folder of the build.
    pub folder: &'a Path,
    /// The tool that builds; CMake's own choice if there is none.
    pub generator: Option<&'a str>,
}

impl Project<'_> {
    /// Configures it, with these settings (`NAME=VALUE`), from the beginning. Returns what CMake prints.
    ///
    /// # Errors
    /// The output of CMake.
    pub fn configure(&self, settings: &[String]) -> Result<String> {
        let _ = fs::remove_file(self.folder.join("CMakeCache.txt"));
        let mut command = Command::new("cmake");
        command.arg("-S").arg(self.sources).arg("-B").arg(self.folder);
        command.args(self.generator.iter().flat_map(|name| ["-G", name]));
        command.args(settings.iter().map(|setting| format!("-D{setting}")));
        output_of(command)
    }

    /// Builds a target.
    ///
    /// # Errors
    /// The output of CMake.
    pub fn build(&self, target: &str) -> Result<()> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut command = Command::new("cmake");
        command.arg("--build").arg(self.folder).args(["--target", target, "--parallel", &threads.to_string()]);
        output_of(command).map(|_| ())
    }

    /// Installs what is built.
    ///
    /// # Errors
    /// The output of CMake.
    pub fn install(&self, prefix: &Path) -> Result<()> {
        let mut command = Command::new("cmake");
        command.arg("--install").arg(self.folder).arg("--prefix").arg(prefix);
        output_of(command).map(|_| ())
    }

    /// The path of a file of the build.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Runs a command without variables of lastuse, and returns what it prints.
///
/// # Errors
/// Its words, exit code and output.
pub fn output_of(mut command: Command) -> Result<String> {
    clear_variables(&mut command);
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .map(Into::into)
        .collect();
    let output = command.output().map_err(|error| format!("cannot run {}: {error}", words.join(" ")))?;
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    if output.status.success() { Ok(text) } else { Err(format!("{}: {}\n{text}", words.join(" "), output.status)) }
}
