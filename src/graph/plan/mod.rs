//! Plans: an address for every tensor of a graph. Uses the graph, `buffer` and `live_ranges`.
//!
//! - `graph_plan`: the plan
//! - `planned_sizes`: sizes from an earlier plan of the same graph
//! - `ggml_alloc`: the plan that ggml's own allocator makes, to compare with
//! - `intact_inputs`: the inputs that a plan leaves intact
//! - `planner`: makes plans

mod graph_plan;
mod ggml_alloc;
mod planned_sizes;
mod intact_inputs;
mod planner;

pub use ggml_alloc::{ggml_alloc_sizes, plan_as_ggml};
pub use graph_plan::{BufferPlan, GraphPlan, PlanError};
pub use intact_inputs::{accessing_nodes, intact_inputs, read_inputs};
pub use planner::{PlanMemory, plan, plan_in, plan_keeping, shared_live_ranges};
