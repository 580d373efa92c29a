//! Programs that run with lastuse in front of their ggml: what `run` and `compare` share.

mod child;
mod events;
mod library;
mod program;

pub use child::{Child, Ended};
pub use events::Events;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Exit codes as `env`, `nohup` and `timeout` have them: lastuse itself failed; the program cannot be run; there is none.
pub const FAILED: u8 = 125;
const NOT_RUNNABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Why the program was not started.
pub struct NotStarted {
    /// The exit code for it.
    pub code: u8,
    /// What is wrong, and what to do.
    pub message: String,
}

impl NotStarted {
    /// lastuse itself failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { code: FAILED, message: message.into() }
    }
}

/// What to run.
#[derive(clap::Args)]
pub struct Target {
    /// The shared library to preload. When nothing is said it is what LASTUSE_LIBRARY names, or liblastuse.so beside this
    /// tool or in ../lib, or the one that this tool carries.
    #[arg(long = "library", value_name = "FILE")]
    preload: Option<PathBuf>,

    /// The program and its arguments, behind "--".
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Who serves the program's allocators.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Server {
    Lastuse,
    /// ggml's own allocator: lastuse hands every call on.
    Ggml,
}

/// A program that can be started with lastuse in front of its ggml.
pub struct Launcher {
    program: PathBuf,
    arguments: Vec<OsString>,
    /// What is preloaded.
    libraries: Vec<PathBuf>,
    /// Takes what the library reports.
    folder: TempDir,
    runs: usize,
}

/// A run that goes on.
pub struct Run {
    pub child: Child,
    /// Where its events are when it has ended.
    pub events: PathBuf,
}

impl Target {
    /// Finds the program and the library, and whether the one can stand before the other's ggml.
    pub fn launcher(&self) -> Result<Launcher, NotStarted> {
        let (name, arguments) = self.command.split_first().expect("clap asks for one");
        let program = program::find(name)?;
        let mut libraries = Vec::new();
        if !program::has_lastuse(&program)? {
            libraries.push(library::find(self.preload.as_deref())?);
        }
        let folder = tempfile::Builder::new().prefix("lastuse-").tempdir();
        let folder = folder.map_err(|error| NotStarted::failed(format!("cannot make a temporary folder: {error}")))?;
        Ok(Launcher { program, arguments: arguments.to_vec(), libraries, folder, runs: 0 })
    }
}

impl Launcher {
    /// The program's name, for people.
    pub fn name(&self) -> String {
        self.program.file_name().unwrap_or(self.program.as_os_str()).to_string_lossy().into_owned()
    }

    /// A folder that is there as long as this.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Puts a guard before the operations of the program.
    pub fn guard(&mut self) -> Result<(), NotStarted> {
        self.libraries.push(library::GUARD.find()?);
        Ok(())
    }

    /// Starts the program; `prepare` may change the command.
    pub fn start(&mut self, server: Server, prepare: impl FnOnce(&mut Command)) -> Result<Run, NotStarted> {
        let events = self.folder.path().join(format!("events-{}.jsonl", self.runs));
        self.runs += 1;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env("LASTUSE_REPORT", &events).stdin(Stdio::inherit());
        if !self.libraries.is_empty() {
            command.env("LD_PRELOAD", preloaded(&self.libraries));
        }
        match server {
            Server::Lastuse => command.env_remove("LASTUSE"),
            Server::Ggml => command.env("LASTUSE", "off"),
        };
        prepare(&mut command);
        let child = Child::start(&mut command).map_err(|error| program::not_started(&self.program, &error))?;
        Ok(Run { child, events })
    }
}

/// The libraries first, and whatever is preloaded already.
fn preloaded(libraries: &[PathBuf]) -> OsString {
    let others = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty());
    let all: Vec<OsString> = libraries.iter().map(|library| library.as_os_str().to_owned()).chain(others).collect();
    all.join(OsStr::new(":"))
}
