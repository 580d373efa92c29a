//! A split of neurons between GPU and host, and the check of its file.
//!
//! - `rows`: what is reported
//! - `text`, `json`: how
//! - `file`: the check of a file

mod rows;
mod text;
mod json;
mod file;

pub use file::{checked_split_json, checked_split_text};
pub use json::split_json;
pub use rows::{SplitBudget, SplitReport, SplitRow};
pub use text::split_text;
