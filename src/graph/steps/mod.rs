//! Stepwise computation: a graph is cut into tiles that are planned and run one after the other. Uses the graph,
//! `live_ranges` and `plan`.
//!
//! ```text
//!   nodes    | a   b   c | d   e | f   g   h |      two cuts, three parts
//!   crossing |   [========================]  |      computed in the first part, used in the last
//!            |       [=======]               |      live in the first two parts
//!   compute  |  [==] [=] |   [=] |  [==]     |      one compute buffer at a time
//! ```
//!
//! A tensor that only one part touches lies in the compute buffer of that part. One that several parts touch crosses a
//! cut: it has its own memory from the first of them to the last. Inputs, outputs and results that no node uses are
//! kept for the whole run.
//!
//! The steps of a stepwise computation are called parts here: a [`crate::placement::Step`] is the position of a node.
//!
//! - `owners`: the tensors that own memory, and the nodes that touch each
//! - `cuts`: cuts as ranges of nodes, and why some are not possible
//! - `part`: the plan of one part
//! - `stepwise`: the plan of all parts, with what crosses
//! - `profile`, `costs`: estimates of all parts that could be cut
//! - `choose`: the cuts with the lowest peak

mod owners;
mod cuts;
mod part;
mod stepwise;
mod profile;
mod costs;
mod choose;
#[cfg(test)]
mod tests;

pub use choose::choose_cuts;
pub use cuts::{CutError, check_parts, parts_of};
pub use owners::Owner;
pub use part::{PartPlan, PartPlanner, PlacedTensor};
pub use stepwise::{CrossingTensor, StepwisePlan, plan_parts};
