//! Which tensors keep their values beyond their last use, so that the program can read them.
//!
//! Plain data, recorded in a [`Graph`](super::Graph): live ranges, the simulator and every pass respect it.
//!
//! - `retained`: the retained tensors of a graph
//! - `pattern`: patterns of names that select tensors

mod pattern;
mod retained;

pub use pattern::{InvalidPattern, NamePattern};
pub use retained::{Retained, Retention};
