//! Plain data out: tables and pictures for people, JSON for programs.
//!
//! Uses [`crate::graph`] and [`crate::placement`].

#[cfg(feature = "cli")]
mod check;
#[cfg(feature = "cli")]
mod compare_table;
pub mod explain;
#[cfg(feature = "cli")]
pub mod picture;
#[cfg(feature = "cli")]
mod plan_json;
mod plan_table;
mod problem_table;
#[cfg(feature = "cli")]
mod run_table;
#[cfg(all(test, feature = "cli"))]
mod tests;

#[cfg(feature = "cli")]
pub use check::{check_json, check_text};
#[cfg(feature = "cli")]
pub use compare_table::{CompareRow, Samples, compare_table};
#[cfg(feature = "cli")]
pub use plan_json::plan_json;
pub use plan_table::{PlanRow, plan_table};
pub use problem_table::{ProblemRow, Verdict, problem_table};
#[cfg(feature = "cli")]
pub use run_table::{BufferRow, RunRow, run_table, total_bytes};
