//! llama.cpp with a program that takes the arguments of `lastuse offload`, and what its devices were asked for.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use lastuse_vendor::{Llama, Package, ggml};

use crate::{HostProgram, Linked, Outcome, Prepared, Program, Result, Variable, tool};

/// The source of the program, relative to the folder of the C programs.
pub const PLACED: &str = "llama_cpp/placed.c";

/// That of the program that writes models.
pub const WRITER: &str = "llama_cpp/write_gguf.c";

/// A model with random weights.
#[derive(Clone, Copy, Debug)]
pub struct PlacedModel {
    /// The name of its file.
    pub name: &'static str,
    /// Options of `write_gguf.c`.
    pub shape: &'static str,
}

/// `llama_cpp/placed.c`, with the data needed to run it.
#[derive(Debug)]
pub struct PlacedProgram {
    program: HostProgram,
    writer: Program,
    folder: PathBuf,
    tool: PathBuf,
}

/// The bytes requested from a device, counted at its buffer type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// In live buffers of weights.
    pub weights: u64,
    /// In live buffers of caches.
    pub kv: u64,
    /// In live compute buffers.
    pub compute: u64,
    /// The most at a time.
    pub peak: u64,
    /// How many requests were refused.
    pub refused: u64,
    /// How many free bytes the driver reports less than at the start: with what it takes for itself.
    pub taken: u64,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct PlacedRun {
    /// A hash of all logits; `None` if there were none.
    pub logits: Option<String>,
    /// By the name of the device.
    pub devices: HashMap<String, Asked>,
    outcome: Outcome,
}

impl PlacedRun {
    /// Returns `true` if the program generated all tokens.
    pub fn is_complete(&self) -> bool {
        self.outcome.code == Some(0) && self.logits.is_some()
    }

    /// Returns `true` if the program ended with its own error, as after a refused buffer.
    pub fn has_failed(&self) -> bool {
        self.outcome.code == Some(1)
    }

    /// Returns how many milliseconds all decoding took.
    pub fn milliseconds(&self) -> Option<f64> {
        self.outcome.value("milliseconds")?.parse().ok()
    }

    /// Returns the log of the program and its libraries.
    pub fn log(&self) -> &str {
        &self.outcome.stderr
    }

    /// Returns exit code and output, for messages.
    pub fn describe(&self) -> String {
        self.outcome.describe()
    }
}

impl PlacedProgram {
    /// Compiles the program for this llama.cpp. Its output goes to `folder`; `variables` are set in each run.
    ///
    /// # Errors
    /// When something cannot be built.
    pub fn build(name: &str, llama: &Llama, folder: PathBuf, variables: Vec<Variable>) -> Result<Self> {
        Self::of(HostProgram::build(name, &[PLACED], llama, variables)?, folder)
    }

    /// With a program that was compiled for this llama.cpp from [`PLACED`] and others. Its output goes to `folder`.
    ///
    /// # Errors
    /// When something cannot be built.
    pub fn of(program: HostProgram, folder: PathBuf) -> Result<Self> {
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let own_ggml = ggml(Package::LlamaCpp)?;
        let writer = Program::build("write-gguf", &[WRITER], &own_ggml, Linked::Ggml, &[])?;
        Ok(Self { program, writer, folder, tool: tool()? })
    }

    /// With the programs of a prepared folder, to which its output goes.
    pub fn prepared(name: &str, prepared: &Prepared, variables: Vec<Variable>) -> Self {
        let program = HostProgram::prepared(name, prepared, variables);
        let [writer, tool] = ["write-gguf", "lastuse"].map(|name| prepared.program(name));
        Self { program, writer: Program::existing(writer), folder: prepared.folder().to_owned(), tool }
    }

    /// Returns a model, which is written if it is not there.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn model(&self, model: &PlacedModel) -> Result<PathBuf> {
        static WRITING: Mutex<()> = Mutex::new(());
        let _one_at_a_time = WRITING.lock();
        let path = self.folder.join(model.name);
        if !path.exists() {
            let text = path.to_string_lossy();
            let arguments: Vec<&str> = std::iter::once(&*text).chain(model.shape.split_whitespace()).collect();
            let written = self.writer.run(&arguments)?;
            if written.code != Some(0) {
                return Err(written.describe());
            }
        }
        Ok(path)
    }

    /// Returns the path of the program.
    pub fn path(&self) -> &Path {
        self.program.path()
    }

    /// Returns the tool.
    pub fn tool(&self) -> &Path {
        &self.tool
    }

    /// Returns the variables that every run has.
    pub fn environment(&self) -> Vec<(&str, &OsStr)> {
        self.program.environment()
    }

    /// Runs the program once as users do to capture its graphs, which are returned. Backends that change the order of
    /// nodes leave it as the program has it.
    ///
    /// # Errors
    /// When it fails.
    pub fn capture(&self, label: &str, model: &Path, arguments: &[String]) -> Result<Vec<PathBuf>> {
        let folder = self.folder.join(format!("graphs-{label}"));
        let _ = fs::remove_dir_all(&folder);
        let outcome = self.with_tool(&["run", "--capture", &folder.to_string_lossy()], model, arguments)?;
        if outcome.code != Some(0) {
            return Err(outcome.describe());
        }
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.sort();
        Ok(files)
    }

    /// Runs a command of the tool with its options, on the program with these arguments.
    ///
    /// # Errors
    /// When the tool cannot be started.
    pub fn with_tool(&self, command: &[&str], model: &Path, arguments: &[String]) -> Result<Outcome> {
        let [program, library, model] =
            [self.program.path(), self.program.library(), model].map(|path| path.to_string_lossy());
        let mut all = command.to_vec();
        all.extend(["--library", &library, "--", &program, &model]);
        all.extend(arguments.iter().map(String::as_str));
        Program::existing(&self.tool).run_with(&all, &self.program.environment())
    }

    /// Runs the program, with lastuse preloaded or as it is.
    ///
    /// # Errors
    /// When it cannot be started, or its output is not understood.
    pub fn run(&self, model: &Path, arguments: &[String], with_lastuse: bool) -> Result<PlacedRun> {
        self.run_with(model, arguments, with_lastuse, &[])
    }

    /// Runs the program as [`PlacedProgram::run`] does, with `more` variables.
    ///
    /// # Errors
    /// When it cannot be started, or its output is not understood.
    pub fn run_with(
        &self,
        model: &Path,
        arguments: &[String],
        with_lastuse: bool,
        more: &[Variable],
    ) -> Result<PlacedRun> {
        let model = model.to_string_lossy();
        let all: Vec<&str> = std::iter::once(&*model).chain(arguments.iter().map(String::as_str)).collect();
        let outcome = self.program.run(&all, with_lastuse, more)?;
        let devices = outcome.stdout.lines().filter(|line| line.starts_with("device="));
        let devices = devices.map(asked).collect::<Result<HashMap<String, Asked>>>()?;
        Ok(PlacedRun { logits: outcome.value("logits_hash").map(str::to_owned), devices, outcome })
    }
}

/// Reads a line of `key=value` pairs.
fn asked(line: &str) -> Result<(String, Asked)> {
    let pairs: HashMap<&str, &str> = line.split(' ').filter_map(|pair| pair.split_once('=')).collect();
    let number = |key: &str| pairs.get(key).and_then(|value| value.parse().ok());
    let read = || {
        let (weights, kv, compute) = (number("weights")?, number("other")?, number("compute")?);
        let (peak, refused, taken) = (number("peak")?, number("refused")?, number("taken")?);
        let asked = Asked { weights, kv, compute, peak, refused, taken };
        Some(((*pairs.get("device")?).to_owned(), asked))
    };
    read().ok_or_else(|| format!("this line of a device lacks something: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_devices_are_read() {
        let line =
            "device=GPU0 type=GPU0 alignment=128 max_buffer=9 weights=1 compute=3 other=2 peak=6 refused=1 taken=7";
        let expected = Asked { weights: 1, kv: 2, compute: 3, peak: 6, refused: 1, taken: 7 };
        assert_eq!(asked(line), Ok(("GPU0".to_owned(), expected)));
        assert!(asked("device=GPU0 weights=1").is_err_and(|why| why.contains("lacks something")));
    }
}
