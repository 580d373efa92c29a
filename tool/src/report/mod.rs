//! Output: tables, pictures, explanations and JSON.
//!
//! Uses [`crate::formats`].

mod check;
mod sizes;
mod table;
mod xml;
mod compare_table;
mod explanation;
mod comparison;
mod run_table;
mod plan_table;
mod offload_text;
pub mod accounting;
pub mod picture;
#[cfg(test)]
mod tests;

pub use check::{check_json, check_text};
pub use compare_table::{CompareRow, Samples, Spread, Unit, compare_table};
pub use comparison::{
    Compared, Comparison, Holder, PeakTensor, PlanOfBuffer, comparison_text, group_name, without_numbers,
};
pub use explanation::{explanation_json, explanation_summary, planned_bytes};
pub use offload_text::{class_name, offload_text};
pub use plan_table::{PlanRow, ProblemRow, RecomputedRow, TilingRow, Verdict, plan_table, problem_table};
pub use run_table::{BufferRow, GraphRow, RunRow, arena_line, graph_lines, run_table, total_bytes};
pub use sizes::{SizeUnit, as_mib, exact, fixed, parse_size};
pub(crate) use table::Table;
