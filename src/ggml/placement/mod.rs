//! Placement of the weights and caches of live graphs on devices ([`crate::devices::planner`]).
//!
//! [`request`] has what a program gives: devices, items, graphs. [`graph`] reads a live graph, in which items count as
//! memory that is there already. [`backends`] asks real backends what they support, where the program names them.
//! [`compute`] places intermediates by a rule, and plans the compute buffers. [`planner`] puts these together, and
//! [`assign`] applies the result to a scheduler.

mod failure;
mod request;
mod graph;
mod backends;
mod compute;
mod assign;
mod planner;

pub use failure::PlacementFailure;
pub use planner::DevicePlanner;
pub use request::{LiveDevice, LiveItem, PlacementRule, PlannerSettings};
