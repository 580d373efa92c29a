//! Tests of the rules on small graphs; `c-tests/tests/scheduler` compares with the real scheduler.

mod errors;
mod other_rules;
pub mod scene;
mod scheduler;
mod snapshots;
mod vulkan_order;
