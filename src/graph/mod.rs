//! Computation graphs as plain data, and what can be derived from them.
//!
//! Uses [`crate::placement`] only; knows nothing of pointers or of ggml's C types. The way of a graph:
//! [`Graph`] -> [`live ranges`](live_ranges()) -> one [`crate::placement::Problem`] per buffer -> [`plan`](plan()) ->
//! [`GraphPlan`].
//!
//! Each part uses only those above it in this list:
//!
//! - `lists`: short lists by index
//! - `layouts`: element types, extents and strides
//! - `op`: the table of operations
//! - `tensor`: one tensor
//! - `retention`: the tensors that the program reads later than the graph does
//! - `def_use`, `computation`: the graph, with the sources and the last user of each tensor
//! - `edit`: the editor of graphs, which the passes use
//! - `access`: which bytes a node reads and writes
//! - `rules`, `device`, `rule_setting`, `buffer`: the target of a plan
//! - `live_ranges`: when each tensor needs memory
//! - `live_bytes`: the live bytes in whatever order nodes run
//! - [`kernels`]: the cost of a placement on a device, in kernels that are not fused and barriers
//! - `plan`: the address of each tensor
//! - `simulate`: runs a graph on a plan without computing, to verify the plan
//! - `pass`: what the passes share
//! - [`order`]: a pass to another order of execution, with a lower peak
//! - [`recompute`]: a pass to a graph that computes results again instead of keeping them
//! - [`copies`]: a pass that removes copies
//! - [`tiling`]: a pass to a graph that computes large intermediates in tiles
//! - [`steps`]: cuts a graph into steps that are computed one after the other
//! - [`snapshot`]: a captured graph with its names and sizes

mod lists;
mod layouts;
mod op;
mod rules;
mod device;
mod rule_setting;
mod tensor;
mod shape_label;
mod buffer;
mod access;
mod retention;
mod def_use;
mod computation;
mod edit;
pub mod copies;
mod live_ranges;
mod live_bytes;
pub mod kernels;
mod plan;
mod pass;
pub mod order;
pub mod recompute;
pub mod tiling;
pub mod steps;
mod simulate;
pub mod snapshot;
#[cfg(test)]
pub(crate) mod tests;

pub use access::{Access, Accesses, Unordered};
pub use buffer::{Address, BufferIndex, BufferSpec, Region, Requests, Sizes};
pub use computation::{Graph, id_of};
pub use device::Device;
pub use edit::{Edited, GraphEdit};
pub use layouts::{Layout, LayoutId, LayoutRef};
pub(crate) use lists::Lists;
pub use live_ranges::{Allocation, InactiveNode, LiveRanges, Workspace, live_ranges, tensors_in_blocks};
pub use op::{CopyKind, Effect, InPlace, Op, OpGroup, Slots, Strides, TileKind, Version, Window, Work};
pub use pass::NotChanged;
pub use plan::{
    BufferPlan, Devices, GraphPlan, Kept, PlanError, Wishes, accessing_nodes, ggml_alloc_sizes, intact_inputs, plan,
    plan_as_ggml, read_inputs, shared_live_ranges,
};
pub use retention::{InvalidPattern, NamePattern, Retained, Retention};
pub use rule_setting::{RuleSetting, UnknownRule};
pub use rules::Rules;
pub use shape_label::{extents, shape_label};
pub use simulate::{AddressMap, Corruption, Finding, Labels, describe, simulate, simulate_again, simulate_at};
pub use simulate::{Freed, freed, owner_at};
pub use tensor::{Flags, Tensor, TensorId, View};
