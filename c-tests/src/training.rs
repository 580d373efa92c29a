//! Runs of the program in `training/`, which trains a small transformer.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use lastuse_vendor::{Ggml, target_folder};

use crate::{Lastuse, Linked, Outcome, Program, Result};

/// The sources, relative to the folder of the C programs.
const SOURCES: [&str; 8] = [
    "training/ggml_opt.c",
    "training/loop.c",
    "training/main.c",
    "training/method.c",
    "training/model.c",
    "training/record.c",
    "training/task.c",
    "training/training.c",
];

/// `ggml_opt` calls these functions, through which the program gets at its graphs.
const WRAPPED: [&str; 2] = ["-Wl,--wrap=ggml_backend_sched_alloc_graph", "-Wl,--wrap=ggml_backend_sched_graph_compute"];

/// Who builds the graphs of a training run, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrainingDriver {
    /// `ggml_opt`, once.
    Static,
    /// `ggml_opt`, for each batch.
    Batches,
    /// A loop of the program, once.
    Loop,
}

impl TrainingDriver {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Static, Self::Batches, Self::Loop];

    /// Returns the name that the program knows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Batches => "batches",
            Self::Loop => "loop",
        }
    }
}

/// Ways to need less memory, or to read more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainingMethod {
    /// The name that the program knows.
    pub name: &'static str,
    /// Whether the results of layers can be read after the run.
    pub keeps_layers: bool,
    /// Whether all results can be read after the run, so that nothing shares memory.
    pub keeps_everything: bool,
    needs_lastuse: bool,
    /// Whether it needs the allocator, which `ggml_opt` does not show.
    needs_loop: bool,
}

/// Nothing is done.
pub const PLAIN: TrainingMethod = TrainingMethod {
    name: "plain",
    keeps_layers: false,
    keeps_everything: false,
    needs_lastuse: false,
    needs_loop: false,
};

const METHODS: [TrainingMethod; 10] = [
    PLAIN,
    TrainingMethod { name: "order", needs_lastuse: true, ..PLAIN },
    TrainingMethod { name: "recompute", needs_lastuse: true, ..PLAIN },
    TrainingMethod { name: "combined", needs_lastuse: true, ..PLAIN },
    TrainingMethod { name: "steps", needs_lastuse: true, needs_loop: true, ..PLAIN },
    TrainingMethod { name: "outputs", keeps_layers: true, ..PLAIN },
    TrainingMethod { name: "retain", keeps_layers: true, needs_lastuse: true, ..PLAIN },
    TrainingMethod { name: "everything", keeps_layers: true, keeps_everything: true, needs_lastuse: true, ..PLAIN },
    TrainingMethod { name: "dump", keeps_layers: true, needs_lastuse: true, ..PLAIN },
    TrainingMethod { name: "dedicate", keeps_layers: true, needs_lastuse: true, needs_loop: true, ..PLAIN },
];

/// One way to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainingSetup {
    /// Who builds the graphs.
    pub driver: TrainingDriver,
    /// Batches whose gradients are added for one step of the optimizer.
    pub accumulate: u32,
    /// Whether lastuse is linked; otherwise ggml's own allocator serves the program.
    pub on_lastuse: bool,
    /// Ways to need less memory, or to read more.
    pub method: TrainingMethod,
}

impl TrainingSetup {
    /// Returns all methods on ggml's own allocator, then on lastuse. The first method of each is [`PLAIN`].
    pub fn all_of(driver: TrainingDriver, accumulate: u32) -> Vec<Self> {
        let methods = METHODS.iter().filter(|method| driver == TrainingDriver::Loop || !method.needs_loop);
        let on = |on_lastuse| move |&method| Self { driver, accumulate, on_lastuse, method };
        let on_ggml = methods.clone().filter(|method| !method.needs_lastuse).map(on(false));
        on_ggml.chain(methods.map(on(true))).collect()
    }

    /// Returns the name of the allocator, as the program prints it.
    pub fn allocator(&self) -> &'static str {
        if self.on_lastuse { "lastuse" } else { "ggml" }
    }
}

/// The result of a training run.
#[derive(Clone, Debug)]
pub struct TrainingRun {
    /// The loss of every batch, exact.
    pub losses: Vec<String>,
    outcome: Outcome,
}

impl TrainingRun {
    /// Returns the value of a `key=value` line.
    ///
    /// # Errors
    /// When the program did not print it.
    pub fn text(&self, key: &str) -> Result<&str> {
        self.outcome.value(key).ok_or_else(|| format!("no {key}: {}", self.outcome.describe()))
    }

    /// Returns a number.
    ///
    /// # Errors
    /// When the program did not print it.
    pub fn number(&self, key: &str) -> Result<f64> {
        self.text(key)?.parse().map_err(|error| format!("{key}: {error}"))
    }
}

/// The program, on ggml alone and with lastuse.
#[derive(Clone, Debug)]
pub struct TrainingPrograms {
    on_ggml: Program,
    on_lastuse: Program,
}

impl TrainingPrograms {
    /// Builds both. The names of the programs end in `suffix`.
    ///
    /// # Errors
    /// The message of the compiler or the linker.
    pub fn build(suffix: &str, ggml: &Ggml, lastuse: &Lastuse) -> Result<Self> {
        let build = |name: &str, linked| Program::build(&format!("{name}{suffix}"), &SOURCES, ggml, linked, &WRAPPED);
        Ok(Self {
            on_ggml: build("training-ggml", Linked::Ggml)?,
            on_lastuse: build("training-lastuse", Linked::LastuseArchive(lastuse))?,
        })
    }

    /// Trains in its own process. `more` are further options of the program.
    ///
    /// # Errors
    /// When the program fails, or another allocator served it than it should have been.
    pub fn run(&self, setup: &TrainingSetup, more: &[&str]) -> Result<TrainingRun> {
        let program = if setup.on_lastuse { &self.on_lastuse } else { &self.on_ggml };
        let (file, accumulate) = (losses_file()?, setup.accumulate.to_string());
        let path = file.to_string_lossy();
        let arguments = [&*path, "--driver", setup.driver.name(), "--method", setup.method.name];
        let outcome = program.run(&[&arguments[..], &["--accumulate", &*accumulate], more].concat())?;
        if outcome.code != Some(0) {
            return Err(format!("{setup:?}: {}", outcome.describe()));
        }
        let losses = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let _ = fs::remove_file(&file);
        let _ = fs::remove_dir_all(format!("{}.dump", file.display()));
        let run = TrainingRun { losses: losses.lines().map(str::to_owned).collect(), outcome };
        let is_served = run.text("allocator")? == setup.allocator();
        if is_served { Ok(run) } else { Err(format!("{setup:?}: not served by {}", setup.allocator())) }
    }

    /// Runs the program on lastuse with these arguments alone.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run_raw(&self, arguments: &[&str]) -> Result<Outcome> {
        self.on_lastuse.run(arguments)
    }
}

/// A separate file for each run.
fn losses_file() -> Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let folder = target_folder().join("training");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    Ok(folder.join(format!("losses-{}-{number}.txt", std::process::id())))
}
