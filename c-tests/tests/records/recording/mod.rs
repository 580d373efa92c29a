//! Records of lastuse: captures, the report, the log, statistics. The program prints its actions.

mod captures;
mod log;
mod plans;
mod report;
mod stats;
use lastuse_tool::formats::open_graph;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use lastuse::graph::snapshot::Snapshot;
use lastuse_c_tests::{Linked, Outcome, Program};
use lastuse_vendor::{Package, target_folder};

use crate::support;
use crate::support::expect;

/// Returns the program with both allocators in it, on the newest ggml.
fn program() -> &'static Program {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    PROGRAM.get_or_init(|| build("recording", Package::LlamaCpp))
}

/// Builds the program on lastuse as users build it: records must not depend on checks of debug builds.
fn build(name: &str, package: Package) -> Program {
    support::build(
        name,
        "tests/records/recording/recording.c",
        &support::ggml(package),
        Linked::Both(&support::release()),
    )
}

/// A folder for one test, empty at first.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = target_folder().join("c-tests/recorded").join(test);
        // It may be there from another run.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the target folder can be written to");
        Self(path)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the names of its files, sorted.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder is there").flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Reads every file in it, each of which must be a graph.
    fn graphs(&self) -> Vec<Snapshot> {
        self.names().iter().map(|name| graph(&self.join(name))).collect()
    }
}

fn graph(path: &Path) -> Snapshot {
    open_graph(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs a case, which must pass.
fn run(arguments: &[&str], variables: &[(&str, &OsStr)]) -> Outcome {
    let outcome = expect(program().run_with(arguments, variables));
    assert_eq!(outcome.code, Some(0), "{arguments:?}: {}", outcome.describe());
    outcome
}
