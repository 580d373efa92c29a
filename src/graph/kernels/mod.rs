//! The cost of a placement on a device: sequences of nodes that its backend cannot run as one kernel, and barriers.
//!
//! Backends of devices compute some sequences of nodes by one kernel, and let kernels that do not depend on each other
//! run side by side. Both depend on addresses: a fused kernel must not write over what it still reads, and a kernel
//! waits where it touches memory that an earlier one writes. So a placement that reuses memory early may be slower than
//! another one of the same size.
//!
//! Each part uses only those above it in this list:
//!
//! - [`fusions`]: what the Vulkan backend runs as one kernel, also for its order of nodes
//! - `nodes`: the nodes that a device computes in a row, with what fusions depend on
//! - `patterns`: the sequences that each backend fuses
//! - `sequences`: where they are in a graph
//! - `replay`: which of them run as one kernel at given addresses, and where kernels wait

pub mod fusions;
mod nodes;
mod patterns;
mod sequences;
mod replay;
#[cfg(test)]
mod tests;

pub use nodes::Desc;
pub use replay::{KernelCosts, Space, costs_at};
pub use sequences::Kernels;
