//! Builds C and C++ programs on real ggml and on lastuse, and runs them.

mod artifacts;
mod browser;
mod captures;
pub mod cmake;
mod commands;
pub mod debian;
mod folders;
mod fuzz_graphs;
mod graph_files;
mod host_program;
mod live_graph;
mod making;
mod markdown;
pub mod models;
mod objects;
mod placed;
pub mod packages;
mod prepared;
mod program;
mod runs;
mod sources;
mod training;

pub use artifacts::{
    Build, Lastuse, build_side_by_side, guard_library, lastuse, measure_library, tool, tool_with_libraries_inside,
};
pub use browser::{Browser, is_root};
pub use captures::{Capture, Generator, program_on_llama, write_model_without_data};
pub use commands::bench_of_names;
pub use folders::copy_folder;
pub use fuzz_graphs::{FUZZ_SOURCES, fuzz_program};
pub use graph_files::{captured_graphs, graph_name, graphs_in, read_compressed, read_graph, write_compressed};
pub use host_program::{HostProgram, Variable};
pub use live_graph::{Allocators, BackendTables, Gallocr, LiveGraph, RealSchedule, RealScheduler, SeenTensor};
pub use markdown::aligned_table;
pub use placed::{
    Asked, DENSE, EXPERTS, HeadOnHost, PLACED, PlacedCase, PlacedModel, PlacedProgram, PlacedReport, PlacedRow,
    PlacedRun, Promise, Promised, WRITER, head_on_host, on_any_machine, sweep,
};
pub use prepared::Prepared;
pub use program::{Linked, Outcome, Program, clear_variables};
pub use runs::{Runs, Way};
pub use sources::{Case, cases};
pub use training::{PLAIN, TrainingDriver, TrainingMethod, TrainingPrograms, TrainingRun, TrainingSetup};

/// A result whose error is a message.
pub type Result<T> = std::result::Result<T, String>;

/// The folder of the C programs.
pub fn folder() -> &'static std::path::Path {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
}
