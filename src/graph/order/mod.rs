//! A pass to another order of execution, with a lower peak. Uses the graph, `access`, `live_ranges`,
//! `live_bytes` and `plan`.
//!
//! The order of a graph's nodes decides what is live at the same time. Here the nodes are moved so that the lower bound
//! falls, within what [`Hazards`] allow: nodes that access the same memory stay in the given order.
//!
//! ```text
//!  graph -> Hazards (which nodes must stay before which)
//!        -> Model   (of `live_bytes`; Run simulates an order step by step)
//!        -> eager   (moves nodes that free memory to where they can run)
//!        -> improve (searches windows around the peak by `beam`: small ones first, or the whole graph first)
//!        -> restore (moves back what did not have to move)
//!        -> reorder (compares live ranges and plans of both orders)
//! ```
//!
//! All searching is counted in work, never in time: the same graph gives the same order, always.

mod hazards;
mod eager;
mod beam;
mod improve;
mod reorder;
#[cfg(test)]
mod tests;

pub use hazards::Hazards;
pub(super) use hazards::last_barrier;
pub use reorder::{Measure, ReorderEffort, Reordering, reorder};
