//! Offload: where the weights, caches and intermediates of a program are, and the cost.
//!
//! Uses [`crate::graph`] and [`crate::placement`]; plain data in and out. Each part uses only those above it in this list:
//!
//! - [`device`]: the memory of a device
//! - [`item`]: weights and caches to place
//! - [`planner`]: where each item is, so that no device exceeds its budget
//! - [`rules`]: where each intermediate is computed and kept, given where the weights are
//! - [`captured`]: the items of captured graphs, and the compute buffers of an offload plan

pub mod device;
pub mod item;
pub mod planner;
pub mod rules;
pub mod captured;
