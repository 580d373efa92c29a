//! A program of ours on the shared libraries of a host, run with lastuse preloaded and without.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use lastuse_vendor::Llama;

use crate::{Build, Linked, Outcome, Prepared, Program, Result, guard_library, lastuse};

/// A variable of the environment.
pub type Variable = (&'static str, &'static str);

/// A compiled program, with the data needed to run it.
#[derive(Debug)]
pub struct HostProgram {
    program: Program,
    libraries: PathBuf,
    variables: Vec<Variable>,
    lastuse: PathBuf,
    /// Both libraries, as `lastuse run` preloads them.
    preload: OsString,
}

impl HostProgram {
    /// Compiles a program, of sources relative to the folder of the C programs, for this llama.cpp. `variables` are set in
    /// each run.
    ///
    /// # Errors
    /// When something cannot be built.
    pub fn build(name: &str, sources: &[&str], llama: &Llama, variables: Vec<Variable>) -> Result<Self> {
        let includes = llama.include_flags.iter().map(String::as_str);
        let libraries = llama.ggml.libraries.clone();
        let search = format!("-L{}", libraries.display());
        // Backends may call functions of newer system libraries than those that are installed, where they are there.
        let link =
            ["-Wl,--no-as-needed", &search, "-lllama", "-lggml", "-Wl,--unresolved-symbols=ignore-in-shared-libs"];
        // Exports the functions of the program, which libraries then call instead of their own.
        let flags: Vec<&str> = includes.chain(link).chain(["-rdynamic"]).collect();
        let program = Program::build(name, sources, &llama.ggml, Linked::SharedGgml, &flags)?;
        Ok(Self::with(program, libraries, variables, [lastuse(Build::Release)?.shared, guard_library()?]))
    }

    /// A program that was compiled for a prepared folder.
    pub fn prepared(name: &str, prepared: &Prepared, variables: Vec<Variable>) -> Self {
        let program = Program::existing(prepared.program(name));
        let [lastuse, guard, _] = prepared.lastuse_libraries();
        Self::with(program, prepared.llama_libraries(), variables, [lastuse, guard])
    }

    fn with(program: Program, libraries: PathBuf, variables: Vec<Variable>, [lastuse, guard]: [PathBuf; 2]) -> Self {
        let mut preload = lastuse.clone().into_os_string();
        preload.push(":");
        preload.push(guard);
        Self { program, libraries, variables, lastuse, preload }
    }

    /// Returns the path of the executable.
    pub fn path(&self) -> &Path {
        self.program.path()
    }

    /// Returns the library that is preloaded.
    pub fn library(&self) -> &Path {
        &self.lastuse
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
