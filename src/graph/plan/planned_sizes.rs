//! Sizes known from an earlier plan, so that each is queried once.

use crate::graph::{Allocation, BufferIndex, InactiveNode, Sizes, TensorId};
use crate::placement::Bytes;

use super::graph_plan::{GraphPlan, find_inactive};

/// The sizes that an earlier plan of the graph queried; others are queried when needed.
pub struct PlannedSizes<'a> {
    allocations: Vec<Option<Allocation>>,
    inactive_owners: Vec<InactiveNode>,
    others: &'a mut dyn Sizes,
}

impl<'a> PlannedSizes<'a> {
    /// Takes the sizes of `plan`.
    pub fn of(plan: &GraphPlan, others: &'a mut dyn Sizes) -> Self {
        Self { allocations: plan.allocations.clone(), inactive_owners: plan.inactive_owners.clone(), others }
    }
}

impl Sizes for PlannedSizes<'_> {
    fn alloc_size(&mut self, tensor: TensorId, buffer: BufferIndex) -> Bytes {
        match self.allocations[tensor as usize] {
            Some(allocation) if allocation.buffer == buffer => allocation.alloc_size,
            _ => match find_inactive(&self.inactive_owners, tensor) {
                Some(node) if node.buffer == buffer => node.alloc_size,
                _ => self.others.alloc_size(tensor, buffer),
            },
        }
    }
}
