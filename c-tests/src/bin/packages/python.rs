//! Environments of Python with packages of its index, kept between runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lastuse_c_tests::Result;
use lastuse_c_tests::packages::output_of;

/// A folder with a Python and packages that nothing else uses.
#[derive(Debug)]
pub struct Environment {
    folder: PathBuf,
}

impl Environment {
    /// Makes one with these packages, unless it is there with them.
    ///
    /// # Errors
    /// Python's venv is missing; the message of pip.
    pub fn with(folder: PathBuf, packages: &[&str]) -> Result<Self> {
        let (environment, wanted) = (Self { folder }, packages.join("\n"));
        let stamp = environment.folder.join("packages.txt");
        if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
            return Ok(environment);
        }
        eprintln!("[python] installing {} to {}", packages.join(", "), environment.folder.display());
        let environment = Self::empty(environment.folder)?;
        environment.install(packages, &[])?;
        fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))?;
        Ok(environment)
    }

    /// Makes one without packages in place of what is there.
    ///
    /// # Errors
    /// Python's venv is missing.
    pub fn empty(folder: PathBuf) -> Result<Self> {
        let mut python = Command::new("python3");
        python.args(["-m", "venv", "--clear"]).arg(&folder);
        output_of(python).map_err(|why| format!("{why}\nthis needs Python's venv: apt-get install -y python3-venv"))?;
        Ok(Self { folder })
    }

    /// Has pip install packages, with these variables.
    ///
    /// # Errors
    /// The message of pip.
    pub fn install(&self, packages: &[&str], variables: &[(&str, &str)]) -> Result<()> {
        let mut pip = Command::new(self.program("python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
        pip.envs(variables.iter().copied());
        output_of(pip).map(|_| ())
    }

    /// The folder of its programs.
    pub fn programs(&self) -> PathBuf {
        self.folder.join("bin")
    }

    /// The path of a program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.programs().join(name)
    }

    /// Runs a program in a folder and returns what it prints.
    ///
    /// # Errors
    /// It fails.
    pub fn run(&self, name: &str, arguments: &[&str], folder: &Path) -> Result<String> {
        let mut command = Command::new(self.program(name));
        command.args(arguments).current_dir(folder);
        output_of(command)
    }
}
