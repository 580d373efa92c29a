//! The live bytes of a graph in whatever order its nodes run: one model for the search for an order, for recomputation
//! and for tiling. Uses the graph and `live_ranges`.
//!
//! - `model`: the values of a graph, with the nodes that compute and use them
//! - `run`: the live bytes while nodes run one after the other
//!
//! Those of an order with live ranges are in the [`MemoryProfile`](crate::placement::MemoryProfile) of its problems.

mod model;
mod run;

pub use model::{Model, ValueId};
pub use run::{Run, peaks_of, peaks_of_part, raise};
