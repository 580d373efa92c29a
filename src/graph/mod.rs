//! A computation graph as plain data, and everything about memory that can be told from it.
//!
//! Uses [`crate::placement`] only; knows nothing of pointers or of ggml's C types. The way of a graph:
//! [`Graph`] -> [`live ranges`] -> one [`crate::placement::Problem`] per buffer -> [`plan`] -> [`GraphPlan`].

mod as_ggml;
mod concat;
pub mod copies;
mod layout;
mod live_ranges;
mod operation;
pub mod order;
mod outputs;
mod plan;
mod reads;
mod rules;
mod simulate;
pub mod snapshot;
mod strides;
mod tensor;
#[cfg(test)]
pub(crate) mod tests;
mod writes;

pub use as_ggml::{plan_as_ggml, sizes_by_ggml};
pub use layout::{Layout, LayoutId, LayoutRef};
pub use live_ranges::{Allocation, InactiveNode, LiveRanges, Sizes, live_ranges};
pub use operation::{Operation, Slots};
pub use outputs::{Access, Accesses, Range, Unordered};
pub use plan::{Address, BufferPlan, BufferSpec, GraphPlan, PlanError, plan, shared_live_ranges};
pub use rules::{Device, RuleSetting, Rules, UnknownRule};
pub use simulate::{Corruption, Finding, Places, Region, Words, describe, simulate, simulate_at};
pub use simulate::{Freed, freed, owner_at};
pub use strides::Strides;
pub use tensor::{BufferIndex, Flags, Graph, Requests, Tensor, TensorId, View};
