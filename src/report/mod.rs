//! Plain data out: tables and pictures for people, JSON for programs.
//!
//! Uses [`crate::graph`] and [`crate::placement`].

pub mod picture;
mod plan_json;
mod plan_table;
mod problem_table;
#[cfg(test)]
mod tests;

pub use plan_json::plan_json;
pub use plan_table::{PlanRow, plan_table};
pub use problem_table::{ProblemRow, Verdict, problem_table};
