//! Plain data out: tables for people, JSON for programs.
//!
//! Uses [`crate::graph`] and [`crate::placement`].

pub mod explain;
#[cfg(feature = "cli")]
mod plan_json;
mod plan_table;
mod problem_table;
#[cfg(all(test, feature = "cli"))]
mod tests;

#[cfg(feature = "cli")]
pub use plan_json::plan_json;
pub use plan_table::{PlanRow, plan_table};
pub use problem_table::{ProblemRow, Verdict, problem_table};
