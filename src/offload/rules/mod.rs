//! Rules of offload for intermediates: given which tensors are in which memory, where each node runs, where its
//! result resides, which tensors are copied, and how many bytes the compute buffer of each backend takes.
//!
//! ```text
//!  Snapshot + TensorMemory = PlacedGraph      Backends      Capabilities
//!                        \                       |            /
//!   schedule (ggml's scheduler) | any_operand | powerinfer: a backend for each node
//!                                   |
//!                  splits, copies of their inputs: Schedule
//!                                   |
//!        ScheduledGraph, as the allocator receives it -> compute_buffers -> bytes by backend
//! ```
//!
//! Each part uses only those above it in this list:
//!
//! - `backends`: backends in the order of priority, buffer types, and what each backend can do
//! - `placed_graph`: a graph with the memory of its weights and caches
//! - `offload_error`: why there is no offload
//! - `options`: how a scheduler was made, and of which version
//! - `typical_backends`: what backends can do, for captured graphs; `vulkan_order` has the order in which ggml's Vulkan
//!   backend runs nodes
//! - `scheduled_graph`: the graph with copies, where everything is, and the draft that becomes it
//! - `splits`: splits and the copies of their inputs
//! - `scheduler`: ggml's rule, reproduced
//! - `llama_cpp`: its names of results, and what it assigns before it schedules
//! - `other_rules`: two rules without a scheduler, and all three as one type
//! - `compute_buffers`: the compute buffer of each backend
//! - `snapshots`: scheduled graphs with names, and captured graphs without the tensors that a scheduler added

mod backends;
mod offload_error;
mod placed_graph;
mod options;
mod vulkan_order;
mod typical_backends;
mod scheduled_graph;
mod splits;
mod scheduler;
mod llama_cpp;
mod other_rules;
mod compute_buffers;
mod snapshots;
#[cfg(test)]
pub(crate) mod tests;

pub use backends::{
    Backend, BackendIndex, Backends, BufferType, BufferTypeIndex, Capabilities, KeptUntil, MAX_BACKENDS,
};
pub use compute_buffers::{ComputeBuffers, ScheduledSizes, captured_sizes, compute_buffers, ggml_compute_bytes};
pub use llama_cpp::{llama_cpp_assignments, llama_cpp_host_attention};
pub use offload_error::OffloadError;
pub use options::{SchedulerOptions, SchedulerVersion};
pub use other_rules::{DestinationClasses, Rule, any_operand, powerinfer};
pub use placed_graph::{PlacedGraph, TensorMemory, Usage};
pub use scheduled_graph::{Origin, Schedule, ScheduledGraph, Split};
pub use scheduler::schedule;
pub use snapshots::{copied_name, unscheduled};
pub use typical_backends::TypicalBackends;
