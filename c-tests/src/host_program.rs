//! A program of ours on the shared libraries of a host, run with lastuse preloaded and without.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use lastuse_vendor::Llama;

use crate::{Build, Lastuse, Linked, Outcome, Program, Result, guard_library, lastuse};

/// A variable of the environment.
pub type Variable = (&'static str, &'static str);

/// A compiled program, with the data needed to run it.
#[derive(Debug)]
pub struct HostProgram {
    program: Program,
    libraries: PathBuf,
    variables: Vec<Variable>,
    lastuse: Lastuse,
    /// Both libraries, as `lastuse run` preloads them.
    preload: OsString,
}

impl HostProgram {
    /// Compiles a program, relative to the folder of the C programs, for this llama.cpp. `variables` are set in each run.
    ///
    /// # Errors
    /// When something cannot be built.
    pub fn build(name: &str, source: &str, llama: &Llama, variables: Vec<Variable>) -> Result<Self> {
        let includes = llama.include_flags.iter().map(String::as_str);
        let libraries = llama.ggml.libraries.clone();
        let search = format!("-L{}", libraries.display());
        // Backends may call functions of newer system libraries than those that are installed, where they are there.
        let link =
            ["-Wl,--no-as-needed", &search, "-lllama", "-lggml", "-Wl,--unresolved-symbols=ignore-in-shared-libs"];
        let flags: Vec<&str> = includes.chain(link).collect();
        let program = Program::build(name, &[source], &llama.ggml, Linked::SharedGgml, &flags)?;
        let lastuse = lastuse(Build::Release)?;
        let mut preload = lastuse.shared.clone().into_os_string();
        preload.push(":");
        preload.push(guard_library()?);
        Ok(Self { program, libraries, variables, lastuse, preload })
    }

    /// Returns the path of the executable.
    pub fn path(&self) -> &Path {
        self.program.path()
    }

    /// Returns the library that is preloaded.
    pub fn library(&self) -> &Path {
        &self.lastuse.shared
    }

    /// Runs the program, with lastuse preloaded or as it is, and with `more` variables.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(&self, arguments: &[&str], with_lastuse: bool, more: &[(&str, &str)]) -> Result<Outcome> {
        let mut variables = self.environment();
        variables.extend(more.iter().map(|&(name, value)| (name, OsStr::new(value))));
        if with_lastuse {
            variables.push(("LD_PRELOAD", &self.preload));
        }
        self.program.run_with(arguments, &variables)
    }

    /// Returns the variables that every run has.
    pub fn environment(&self) -> Vec<(&str, &OsStr)> {
        let own = self.variables.iter().map(|&(name, value)| (name, OsStr::new(value)));
        std::iter::once(("LD_LIBRARY_PATH", self.libraries.as_os_str())).chain(own).collect()
    }
}
