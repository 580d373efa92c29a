//! Folders with packages of npm's registry, kept between runs.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lastuse_c_tests::Result;
use lastuse_c_tests::packages::{ServedRun, output_of, served_results};

use crate::files::write;

/// A folder with packages that nothing else uses.
#[derive(Debug)]
pub struct Node {
    /// The folder.
    pub path: PathBuf,
}

impl Node {
    /// Makes one with these packages, unless it is there with them.
    ///
    /// # Errors
    /// The message of npm.
    pub fn with(path: PathBuf, packages: &[String]) -> Result<Self> {
        let wanted = packages.join("\n");
        let stamp = path.join("packages.txt");
        if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
            return Ok(Self { path });
        }
        eprintln!("[npm] installing {} to {}", packages.join(", "), path.display());
        let made = Self::empty(path)?;
        made.install(&packages.iter().map(String::as_str).collect::<Vec<_>>())?;
        write(&stamp, wanted.as_bytes())?;
        Ok(made)
    }

    /// Makes one without packages in place of what is there.
    ///
    /// # Errors
    /// The error of the system.
    pub fn empty(path: PathBuf) -> Result<Self> {
        let _ = fs::remove_dir_all(&path);
        write(&path.join("package.json"), b"{\"private\": true}\n")?;
        Ok(Self { path })
    }

    /// Installs a package from its file, also where another one of that name and version is there.
    ///
    /// # Errors
    /// The message of npm.
    pub fn install_again(&self, name: &str, file: &Path) -> Result<()> {
        let _ = fs::remove_dir_all(self.path.join("node_modules").join(name));
        self.install(&["--offline", "--no-save", &file.to_string_lossy()])
    }

    /// Packages for other devices have hundreds of megabytes, and are optional.
    fn install(&self, words: &[&str]) -> Result<()> {
        let mut npm = Command::new("npm");
        npm.args(["install", "--loglevel=error", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=optional"]);
        npm.args(words).current_dir(&self.path);
        output_of(npm).map(|_| ())
    }

    /// Runs node there, and returns what it prints.
    ///
    /// # Errors
    /// The program fails.
    pub fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new("node");
        command.args(arguments).current_dir(&self.path);
        output_of(command)
    }

    /// Runs node there with a program that writes the file `output`.
    ///
    /// # Errors
    /// The program fails, or writes nothing.
    pub fn results(&self, arguments: &[&str], output: &str, is_off: bool) -> Result<ServedRun> {
        let path = self.path.to_string_lossy();
        let words = [&["--chdir", &path, "node"], arguments].concat();
        let off = [("LASTUSE", OsStr::new("off"))];
        served_results(Path::new("env"), &words, if is_off { &off } else { &[] }, &self.path.join(output))
    }
}
