//! Builds by CMake, done again only when something has changed.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;

/// Settings of static libraries. Functions begin at cache lines: whatever is linked before them then moves them by whole
/// lines, which hardly changes how fast they are.
const ALIGNED: [&str; 2] = ["CMAKE_C_FLAGS=-falign-functions=64", "CMAKE_CXX_FLAGS=-falign-functions=64"];

/// Settings of all builds: for this machine.
const SETTINGS: [&str; 3] = ["CMAKE_BUILD_TYPE=Release", "GGML_OPENMP=OFF", "GGML_CCACHE=OFF"];

/// The build, and its folder.
#[derive(Clone, Copy, Debug)]
pub struct CmakeBuild<'a> {
    /// Prefix of lines of progress.
    pub host: &'a str,
    /// The folder with `CMakeLists.txt`.
    pub sources: &'a Path,
    /// The folder of the host; the build goes to `build` in it, and its log to `build.log`.
    pub folder: &'a Path,
    /// More settings, `NAME=VALUE`.
    pub settings: &'a [&'a str],
    /// The targets to build.
    pub target: &'a str,
    /// Files that the build depends on, besides the sources.
    pub inputs: &'a [PathBuf],
}

/// How many percent pass between lines of progress.
const STEP: u32 = 5;

impl CmakeBuild<'_> {
    /// Builds it twice, with these settings too: as shared libraries, and as static ones in the folder `static`.
    ///
    /// # Errors
    /// Those of [`Self::build`].
    pub fn build_shared_and_static(&self, shared: &[&str], fixed: &[&str]) -> Result<()> {
        let (shared, fixed) = ([self.settings, shared].concat(), [self.settings, fixed, &ALIGNED].concat());
        CmakeBuild { settings: &shared, ..*self }.build()?;
        CmakeBuild { settings: &fixed, folder: &self.folder.join("static"), ..*self }.build()
    }

    /// Builds unless the last build was of the same sources, settings and inputs. The folder of a pinned package never
    /// changes, so its path identifies the sources.
    ///
    /// # Errors
    /// The last lines of a failed build, and where the others are.
    pub fn build(&self) -> Result<()> {
        self.build_to(&self.folder.join("build"))
    }

    /// As [`Self::build`], to another folder in that of the host.
    ///
    /// # Errors
    /// Those of [`Self::build`].
    pub fn build_to(&self, build: &Path) -> Result<()> {
        let failed = |file: &Path| format!("cannot write {}", file.display());
        let stamp = build.with_extension("txt");
        let wanted = self.stamp()?;
        if fs::read_to_string(&stamp).is_ok_and(|built| built == wanted) {
            eprintln!("[{}] nothing has changed since the last build", self.host);
            return Ok(());
        }
        fs::create_dir_all(build).map_err(|error| format!("{}: {error}", failed(build)))?;
        let _ = fs::remove_file(&stamp);
        let log = build.with_extension("log");
        let mut log =
            Log { file: File::create(&log).map_err(|error| format!("{}: {error}", failed(&log)))?, path: log };
        eprintln!("[{}] building in {}, which takes minutes", self.host, build.display());
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(self.sources).arg("-B").arg(build);
        configure.args(SETTINGS.iter().chain(self.settings).map(|setting| format!("-D{setting}")));
        self.run(configure, &mut log)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut compile = Command::new("cmake");
        compile.arg("--build").arg(build).args(["--target", self.target, "--parallel", &threads.to_string()]);
        self.run(compile, &mut log)?;
        fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", failed(&stamp)))
    }

    /// Returns all that the build depends on, as text.
    fn stamp(&self) -> Result<String> {
        let mut text = format!("{}\n{}\n{}\n", self.sources.display(), self.settings.join("\n"), self.target);
        for input in self.inputs {
            let bytes = fs::read(input).map_err(|error| format!("{}: {error}", input.display()))?;
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            let _ = writeln!(text, "{} {:016x}", input.display(), hasher.finish());
        }
        Ok(text)
    }

    fn run(&self, mut command: Command, log: &mut Log) -> Result<()> {
        let errors = log.file.try_clone().map_err(|error| format!("{}: {error}", log.path.display()))?;
        let mut child = command.stdout(Stdio::piped()).stderr(errors).spawn();
        let child = child.as_mut().map_err(|error| format!("cannot run cmake: {error}"))?;
        let mut next = 0;
        for line in BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(std::result::Result::ok) {
            let _ = writeln!(log.file, "{line}");
            if let Some(percent) = percent(&line).filter(|&percent| percent >= next) {
                eprintln!("[{}] {percent} % built", self.host);
                next = percent / STEP * STEP + STEP;
            }
        }
        let status = child.wait().map_err(|error| format!("cmake: {error}"))?;
        if status.success() { Ok(()) } else { Err(log.failure()) }
    }
}

struct Log {
    file: File,
    path: PathBuf,
}

impl Log {
    /// Returns the lines with errors, or else the last lines.
    fn failure(&self) -> String {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let is_error = |line: &&&str| line.contains("error:") || line.contains("Error");
        let mut found: Vec<&str> = lines.iter().filter(is_error).take(10).copied().collect();
        if found.is_empty() {
            found = lines[lines.len().saturating_sub(20)..].to_vec();
        }
        format!("the build failed, see {}:\n{}", self.path.display(), found.join("\n"))
    }
}

/// Returns the number in `[ 12%] Building ...`.
fn percent(line: &str) -> Option<u32> {
    line.strip_prefix('[')?.split_once("%]")?.0.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read() {
        assert_eq!(percent("[ 12%] Building CXX object x.o"), Some(12));
        assert_eq!(percent("[100%] Built target llama"), Some(100));
        assert_eq!((percent("-- Found Vulkan"), percent("[x%] y"), percent("[ 1")), (None, None, None));
    }
}
