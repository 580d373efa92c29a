//! A pass that removes copies: the producer of a copied value writes directly where the copy would go. Uses the graph
//! and `access`.
//!
//! ```text
//!  before   | product |--copy--> | part of a cache |       after   | product, in part of a cache |
//! ```
//!
//! Nodes are visited from the last to the first. So a result that is copied twice, into a CONCAT and with that into a
//! cache, goes directly to the destination of the last copy.
//!
//! - `facts`: facts about each tensor that the graph does not hold
//! - `changes`: what changes in the graph, and why other copies stay
//! - `element_order`: strides that put each element where the copy would have put it
//! - `state`: the edit of the graph, and facts besides it
//! - `pass`: the accesses that the pass must respect, and the tensors that it may change
//! - `producer`: the node that computes the copied tensor, with no other use
//! - `moves`: where the producer would write
//! - `checks`: whether it can, and no other node accesses that memory in between
//! - `removal`: visits all copies, and removes those it can

mod facts;
mod changes;
mod element_order;
mod state;
mod pass;
mod producer;
mod moves;
mod checks;
mod removal;

#[cfg(test)]
mod tests;

pub use changes::{Found, Reason};
pub use facts::{CopyTarget, Facts, Storage};
pub use pass::Freedom;
pub use removal::find;
