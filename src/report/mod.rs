//! Output: tables, pictures, explanations and JSON.
//!
//! Uses [`crate::accounting`], [`crate::formats`], [`crate::offload`], [`crate::graph`] and [`crate::placement`].

#[cfg(feature = "cli")]
mod check;
mod sizes;
mod table;
#[cfg(feature = "cli")]
mod xml;
#[cfg(feature = "cli")]
mod compare_table;
pub mod explain;
#[cfg(feature = "cli")]
mod run_table;
mod plan_table;
mod offload_text;
#[cfg(feature = "cli")]
pub mod accounting;
#[cfg(feature = "cli")]
pub mod picture;
pub mod reach;
#[cfg(all(test, feature = "cli"))]
mod tests;

#[cfg(feature = "cli")]
pub use check::{check_json, check_text};
#[cfg(feature = "cli")]
pub use compare_table::{CompareRow, Samples, Spread, Unit, compare_table};
pub use offload_text::{class_name, offload_text};
pub use plan_table::{PlanRow, ProblemRow, RecomputedRow, TilingRow, Verdict, plan_table, problem_table};
#[cfg(feature = "cli")]
pub use run_table::{BufferRow, GraphRow, RunRow, graph_lines, run_table, total_bytes};
pub use sizes::{exact, parse_size};
