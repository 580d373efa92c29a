//! Byte accesses: which bytes a node reads and writes. Uses the ids of tensors.
//!
//! - `history`: which steps access a region, asked from the last step back
//! - `ordering`: whether the graph itself orders all accesses to redirected results

mod history;
mod ordering;

pub use history::History;
pub use ordering::{Access, Accesses, Unordered};
