//! Graphs in files: what is explained of them, and what passes and devices make of them.

mod captures;
mod explained;
mod kernels_of_devices;
mod offload_rules;
mod recomputation;
mod remedies;
#[path = "../support/mod.rs"]
mod support;
