//! Offload of the weights and caches of live graphs on devices ([`crate::offload::planner`]).
//!
//! [`request`] has the input of a program: devices, items, graphs. [`graph`] reads a live graph, in which items count
//! as allocated memory. [`backends`] queries the capabilities of real backends that the program names. [`compute`]
//! places intermediates by a rule, and plans the compute buffers. [`planner`] puts these together, and [`assign`]
//! applies the result to a scheduler.

mod request;
mod graph;
mod backends;
mod compute;
mod assign;
mod planner;

pub use planner::DevicePlanner;
pub use request::{LiveDevice, LiveItem, OffloadFailure, OffloadRule, PlannerSettings};
