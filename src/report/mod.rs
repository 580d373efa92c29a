//! Plain data out: tables for people, JSON for programs.
//!
//! Uses [`crate::graph`] and [`crate::placement`].

mod check;
mod compare_table;
mod plan_json;
mod plan_table;
mod problem_table;
mod run_table;
#[cfg(test)]
mod tests;

pub use check::{check_json, check_text};
pub use compare_table::{CompareRow, Samples, compare_table};
pub use plan_json::plan_json;
pub use plan_table::{PlanRow, plan_table};
pub use problem_table::{ProblemRow, Verdict, problem_table};
pub use run_table::{BufferRow, RunRow, run_table, total_bytes};
