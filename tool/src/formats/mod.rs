//! Files: captured graphs, plans, accountings and placement problems, with the reading and writing of each.
//!
//! Plain data in and out: nothing here prints.
//!
//! - `input`: compressed input, and defects of files
//! - `graph_file`: captured graphs, "lastuse-graph"
//! - `problem_graph`: placement problems as captured graphs
//! - `plan_file`: plans, "lastuse-plan", and the check of a plan against its graph
//! - `accounting`: the bytes of every device, "lastuse-accounting"
//! - [`csv`]: placement problems

mod input;
pub mod csv;
mod graph_file;
mod plan_file;
mod problem_graph;
mod accounting;

pub use accounting::{MalformedAccounting, read_accounting};
pub use graph_file::{open_graph, read_graph};
pub use input::{Malformed, decompressed, is_gzip};
pub use plan_file::{PlanDefect, PlanDefectKind, PlanFile, PlannedBuffer, PlannedTensor, check, plan_json};
pub use problem_graph::graph_of_problem;
