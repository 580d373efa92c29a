//! Byte accesses: which bytes a node reads and writes. Uses the ids of tensors.
//!
//! - `region`: bytes of one address space
//! - `history`: which steps access a region, asked from the last step back
//! - `ordering`: whether the graph itself orders all accesses to redirected results

mod region;
mod history;
mod ordering;

pub use history::History;
pub use ordering::{Access, Accesses, Unordered};
pub use region::Region;
