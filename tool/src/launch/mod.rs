//! Programs that run with lastuse in place of their ggml-alloc: what `run` and `compare` share.

mod child;
mod events;
mod find;
pub mod library;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use child::{Child, survivors};
use clap::ValueHint;
use find::{find, not_started};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::settings::GuardUse;

pub use child::Exit;
pub use events::{Budget, DumpTotals, Events};
pub use find::is_program;

/// lastuse itself failed. These exit codes are those of `env`, `nohup` and `timeout`.
pub const FAILED: u8 = 125;

/// The program cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;

/// The program does not exist.
pub const NOT_FOUND: u8 = 127;

/// Why a program was not started.
#[derive(Clone)]
pub struct NotStarted {
    /// The exit code.
    pub code: u8,
    /// The problem, and the remedy.
    pub message: String,
}

impl NotStarted {
    /// lastuse itself failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { code: FAILED, message: message.into() }
    }
}

/// The option for the library.
#[derive(clap::Args)]
pub struct Preload {
    /// The shared library to preload [default: $LASTUSE_LIBRARY, or else liblastuse.so next to this tool, in ../lib or in
    /// ../lib/lastuse, or else the one embedded in this tool]
    #[arg(long = "library", value_name = "FILE")]
    library: Option<PathBuf>,
}

/// Options for the program to run.
#[derive(clap::Args)]
pub struct Target {
    #[command(flatten)]
    preload: Preload,

    /// The program and its arguments; options of lastuse come before it, optionally followed by "--"
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// The variable with the file of events.
const REPORT: &str = "LASTUSE_REPORT";

/// The variable by which ggml's Vulkan backend keeps the order of nodes.
const KEEP_ORDER: &str = "GGML_VK_DISABLE_GRAPH_OPTIMIZE";

/// Has backends keep the order of nodes: "lastuse offload" needs graphs in the program's order, which cannot be found out
/// afterwards.
pub fn keep_order(command: &mut Command) {
    if std::env::var_os(KEEP_ORDER).is_none() {
        command.env(KEEP_ORDER, "1");
    }
}

/// The allocator that the program uses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Allocator {
    Lastuse,
    /// ggml-alloc: lastuse forwards every call.
    Ggml,
}

/// A program that can be started with lastuse in place of its ggml-alloc.
pub struct Launcher {
    program: PathBuf,
    arguments: Vec<OsString>,
    /// The libraries to preload.
    libraries: Vec<PathBuf>,
    /// Holds the files that the library writes.
    folder: TempDir,
    runs: usize,
}

/// A running program.
pub struct Run {
    pub child: Child,
    /// The file with its events once it has exited.
    pub events: PathBuf,
}

impl Target {
    /// Returns the program and its arguments.
    pub fn words(&self) -> &[OsString] {
        &self.command
    }

    /// Returns whether the command line names the library.
    pub fn names_library(&self) -> bool {
        self.preload.library.is_some()
    }

    /// Finds the program and the library, and checks that the library can replace the program's ggml-alloc.
    pub fn launcher(&self) -> Result<Launcher, NotStarted> {
        self.preload.launcher(&self.command)
    }
}

impl Preload {
    /// Does so for a program and its arguments, of which there is at least the program.
    pub fn launcher(&self, command: &[OsString]) -> Result<Launcher, NotStarted> {
        let (name, arguments) = command.split_first().expect("clap asks for one");
        let program =
            find(name).map_err(|missing| NotStarted { message: missing.message + &meant_as_value(name), ..missing })?;
        let mut libraries = Vec::new();
        if !library::has_lastuse(&program)? {
            libraries.push(library::find(self.library.as_deref())?);
        }
        let folder = tempfile::Builder::new().prefix("lastuse-").tempdir();
        let folder = folder.map_err(|error| NotStarted::failed(format!("cannot make a temporary folder: {error}")))?;
        Ok(Launcher { program, arguments: arguments.to_vec(), libraries, folder, runs: 0 })
    }
}

/// Options whose value, if there is one, follows "=".
const WITH_EQUALS: [&str; 6] = ["--accounting", "--arena", "--live", "--on-demand", "--recycle", "--verify"];

/// Returns a hint where the word that was taken for a program follows such an option.
fn meant_as_value(name: &OsStr) -> String {
    let words: Vec<OsString> = std::env::args_os().take_while(|word| word != "--").collect();
    let pair =
        words.windows(2).find(|pair| pair[1] == name).filter(|pair| WITH_EQUALS.iter().any(|known| pair[0] == *known));
    let hint = |pair: &[OsString]| format!("; did you mean {}={}?", pair[0].display(), pair[1].display());
    pair.map(hint).unwrap_or_default()
}

impl Launcher {
    /// Returns the file name of the program.
    pub fn name(&self) -> String {
        self.program.file_name().unwrap_or(self.program.as_os_str()).to_string_lossy().into_owned()
    }

    /// Describes the program and the libraries that are preloaded, for a message.
    pub fn describe(&self) -> String {
        let libraries: Vec<String> = self.libraries.iter().map(|library| library.display().to_string()).collect();
        match libraries.as_slice() {
            [] => format!("starting {}, which has lastuse linked in", self.program.display()),
            all => format!("starting {} with {} preloaded", self.program.display(), all.join(" and ")),
        }
    }

    /// Returns a folder that exists as long as the launcher.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the processes of a run that outlive the program. Where there are any, the folder stays: they go on writing to
    /// its files.
    pub fn keep_for_survivors(&mut self, events: &Path) -> Vec<u32> {
        let processes = survivors(REPORT, events.as_os_str());
        if !processes.is_empty() {
            self.folder.disable_cleanup(true);
        }
        processes
    }

    /// Ends the processes of a run that outlive the program.
    pub fn end_survivors(&self, events: &Path) {
        for process in survivors(REPORT, events.as_os_str()) {
            // It may have ended meanwhile.
            let _ = kill(Pid::from_raw(process.cast_signed()), Signal::SIGKILL);
        }
    }

    /// Preloads the guard, which watches memory between the operations of the program, dumps tensors, changes graphs before schedulers get
    /// them, and tells lastuse of the buffers that the program allocates itself.
    ///
    /// # Errors
    /// It is needed, and not found.
    pub fn guard(&mut self, used: GuardUse) -> Result<(), NotStarted> {
        match used {
            GuardUse::None => {}
            GuardUse::IfThere if self.libraries.is_empty() => {}
            GuardUse::IfThere => self.libraries.extend(library::GUARD.find().ok()),
            GuardUse::Needed => self.libraries.push(library::GUARD.find()?),
        }
        Ok(())
    }

    /// Preloads what a dry run needs. It comes after the guard, which is told of graphs that are left out as of those that are
    /// computed.
    ///
    /// # Errors
    /// It is not found, or the program has lastuse and its ggml linked in, so that nothing can stand in for them.
    pub fn measure(&mut self) -> Result<(), NotStarted> {
        if self.libraries.is_empty() {
            return Err(NotStarted::failed(format!(
                "{}: its ggml is linked in, and a dry run needs one that is a shared library",
                self.program.display()
            )));
        }
        self.libraries.push(library::MEASURE.find()?);
        Ok(())
    }

    /// Starts the program; `prepare` may change the command.
    pub fn start(&mut self, allocator: Allocator, prepare: impl FnOnce(&mut Command)) -> Result<Run, NotStarted> {
        let events = self.folder.path().join(format!("events-{}.jsonl", self.runs));
        self.runs += 1;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env(REPORT, &events).stdin(Stdio::inherit());
        if !self.libraries.is_empty() {
            command.env("LD_PRELOAD", preloaded(&self.libraries));
        }
        match allocator {
            Allocator::Lastuse => command.env_remove("LASTUSE"),
            Allocator::Ggml => command.env("LASTUSE", "off"),
        };
        prepare(&mut command);
        let child = Child::start(&mut command).map_err(|error| not_started(&self.program, &error))?;
        Ok(Run { child, events })
    }
}

/// Returns the value of LD_PRELOAD: the libraries, followed by its current value.
fn preloaded(libraries: &[PathBuf]) -> OsString {
    let others = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty());
    let all: Vec<OsString> = libraries.iter().map(|library| library.as_os_str().to_owned()).chain(others).collect();
    all.join(OsStr::new(":"))
}
