//! Jobs that run on both allocators.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A program of a host with its arguments, to be run with lastuse and without.
#[derive(Clone, Debug)]
pub struct Job {
    /// The program that is tested, such as "llama.cpp".
    pub host: &'static str,
    /// Its package and the version of that.
    pub version: String,
    /// The kind of model.
    pub model: String,
    /// The use of the model.
    pub name: String,
    /// How lastuse gets into the program.
    pub way: Way,
    /// [`OUTPUT`] is replaced by the path of a file, to which the program writes all its results.
    pub arguments: Vec<String>,
    /// The unit that the program counts, such as "tokens". It prints the number per second as `units_per_second=`.
    pub unit: &'static str,
    /// The threads that compute.
    pub threads: Threads,
    /// The peak of resident memory that it may have on lastuse, as a share of that on ggml's own allocator, where less is promised.
    /// The program prints it as `peak_resident=`.
    pub most_resident: Option<f64>,
    /// Whether ggml's own allocator reserves memory again for a graph of the size that was reserved.
    pub may_reallocate: bool,
    /// On ggml's own allocator.
    pub without: Launch,
    /// On lastuse.
    pub with: Launch,
}

/// Placeholder for the file of the results in the arguments of a job.
pub const OUTPUT: &str = "{output}";

/// The threads of a program that compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    One,
    Several,
    /// Several with their own allocators: how many bytes these hold at a time depends on which threads overlap.
    SeveralWithAllocators,
}

/// How lastuse gets into a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By `LD_PRELOAD`.
    Preloaded,
    /// Linked statically, before ggml.
    Linked,
}

impl Way {
    /// Returns the word of tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Preloaded => "preloaded",
            Self::Linked => "linked",
        }
    }
}

/// A program with its environment.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The executable.
    pub program: PathBuf,
    /// Environment variables.
    pub variables: Vec<(&'static str, OsString)>,
}

impl Launch {
    /// Returns a program on shared libraries in `libraries`, with `preloaded` before them.
    pub fn preloaded(program: &Path, libraries: &Path, preloaded: &[&Path]) -> Self {
        let mut preload = OsString::new();
        for library in preloaded {
            preload.push(library);
            preload.push(" ");
        }
        let variables = vec![("LD_PRELOAD", preload), ("LD_LIBRARY_PATH", libraries.into())];
        Self { program: program.to_owned(), variables }
    }

    /// Preloads one more library, if any is preloaded.
    pub fn preload(&mut self, library: &Path) {
        for (_, libraries) in self.variables.iter_mut().filter(|(name, _)| *name == "LD_PRELOAD") {
            libraries.push(":");
            libraries.push(library);
        }
    }

    /// Returns a program that needs no variables.
    pub fn plain(program: &Path) -> Self {
        Self { program: program.to_owned(), variables: Vec::new() }
    }
}

impl Job {
    /// Returns all that tells it apart from other jobs.
    pub fn label(&self) -> String {
        format!("{} ({}), {}, {}, {}", self.host, self.version, self.model, self.name, self.way.word())
    }
}
