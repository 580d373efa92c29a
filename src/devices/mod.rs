//! Placement on devices: which weights, caches and rows of weights are on which device.
//!
//! Uses [`crate::placement`] only. Each part uses only those above it in this list:
//!
//! - [`device`]: what a device offers
//! - [`item`]: what is placed
//! - [`planner`]: where each item is, so that no device exceeds its budget

pub mod device;
pub mod item;
pub mod planner;
