//! A pass to a graph that fits a budget: forward results are dropped, and computed again in the backward pass.
//!
//! The backward pass of a training graph reads the results of the forward pass, so at its start all of them are live.
//! Here values are dropped after their last use in the forward pass, and copies of the nodes that compute them run
//! right before the backward pass uses them. Uses the graph, `access`, `live_ranges`, `edit`, `plan` and `order`.
//!
//! ```text
//!  graph -> Facts       (what may be dropped, what each node reads, the work of each node)
//!        -> checkpoints (first choices of what to drop: all but what crosses a few narrow steps)
//!        -> Search      (lowers the peak of a choice; then keeps again what saves the most work for its bytes)
//!             Scheduler (the order of execution of a choice)
//!             Estimator (the live bytes of an order)
//!        -> with_copies (the graph, edited: with copies of the nodes that run again)
//!        -> an order    (where that does not fit the budget: the smallest graph in an order with a lower peak)
//!        -> LessWork    (keeps again, in that order, what need not be computed again)
//!        -> recompute   (compares plans with the budget)
//! ```
//!
//! All searching is counted in work, never in time: the same graph gives the same result, always.

mod work;
mod facts;
mod schedule;
mod estimate;
mod checkpoints;
mod search;
mod less_work;
mod pass;
#[cfg(test)]
mod tests;

pub use facts::TrainingGraph;
pub use pass::{Needs, Recomputation, RecomputeEffort, recompute, recompute_exactly};
pub use schedule::Item;
pub use work::work_of;
