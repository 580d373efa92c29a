//! Files: captured graphs, plans, placement problems, with the reading and writing of each.
//!
//! Uses [`crate::offload`], [`crate::graph`] and [`crate::placement`]. Plain data in and out: nothing here prints or knows
//! ggml's types.
//! Without the feature "cli" graphs can be written and nothing can be read, so that the library depends on libc alone.
//!
//! - `input`: compressed input, and defects of files
//! - [`json`]: writes JSON without a library
//! - `graph_file`: captured graphs, "lastuse-graph"
//! - `problem_graph`: placement problems as captured graphs
//! - `plan_file`: plans, "lastuse-plan", and the check of a plan against its graph
//! - [`csv`]: placement problems
//! - [`npy`]: arrays of NumPy, for the values of tensors

#[cfg(feature = "cli")]
mod input;
pub mod json;
pub mod csv;
mod graph_file;
#[cfg(feature = "cli")]
mod plan_file;
mod problem_graph;
pub mod npy;

#[cfg(feature = "cli")]
pub use input::Malformed;
#[cfg(feature = "cli")]
pub use plan_file::{PlanDefect, PlanDefectKind, PlanFile, PlannedBuffer, PlannedTensor, check, plan_json};
