//! A division of neurons between GPU and host, and the check of its file.
//!
//! - `rows`: the reported numbers
//! - `text`, `json`: how
//! - `file`: the check of a file

mod rows;
mod text;
mod json;
mod file;

pub use file::{checked_index_json, checked_index_text};
pub use json::division_json;
pub use rows::{DivisionBudget, DivisionReport, DivisionRow};
pub use text::division_text;
