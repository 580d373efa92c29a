//! Plans: an address for every tensor of a graph. Uses the graph, `buffer` and `live_ranges`.
//!
//! - `graph_plan`: the plan
//! - `planned_sizes`: sizes from an earlier plan of the same graph
//! - `planner`: makes plans
//! - `ggml_alloc`: the plan that ggml's own allocator makes, to compare with

mod graph_plan;
mod ggml_alloc;
mod planned_sizes;
mod planner;

pub use ggml_alloc::{ggml_alloc_sizes, plan_as_ggml};
pub use graph_plan::{BufferPlan, GraphPlan, PlanError};
pub use planner::{PlanMemory, plan, plan_in, shared_live_ranges};
