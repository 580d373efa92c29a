//! The addresses of the tensors of a graph, from a plan, a file or memory.

use crate::graph::{Address, GraphPlan, Region, TensorId};
use crate::placement::Bytes;

/// The bytes of each tensor of a graph.
#[derive(Clone, Debug, Default)]
pub struct AddressMap {
    /// By address space: its size in bytes. A region in any other space is out of bounds.
    pub spaces: Vec<Bytes>,
    /// By tensor: its bytes; `None` for views, and for tensors without memory or with memory that is not simulated.
    pub regions: Vec<Option<Region>>,
}

impl AddressMap {
    /// Returns the addresses of a plan. The spaces are the chunks of the first buffer, then those of the next.
    pub fn of_plan(plan: &GraphPlan) -> Self {
        let chunks = |buffer: usize| &plan.buffers[buffer].placement.chunks;
        let spaces: Vec<Bytes> = (0..plan.buffers.len()).flat_map(chunks).copied().collect();
        let mut first_spaces = Vec::with_capacity(plan.buffers.len());
        let mut next = 0_u32;
        for buffer in 0..plan.buffers.len() {
            first_spaces.push(next);
            next += u32::try_from(chunks(buffer).len()).expect("fewer than 2^32 chunks");
        }
        let region = |(address, alloc_size): (Address, Bytes)| {
            let buffer = address.buffer as usize;
            let exists = (address.chunk as usize) < chunks(buffer).len();
            let space = if exists { first_spaces[buffer] + address.chunk } else { u32::MAX };
            Region { space, start: address.offset, end: address.offset.saturating_add(alloc_size) }
        };
        let regions = (0..).take(plan.allocations.len()).map(|id| plan.placed(id).map(region));
        Self { spaces, regions: regions.collect() }
    }

    /// Returns the bytes of a tensor that is not a view.
    pub fn region(&self, tensor: TensorId) -> Option<Region> {
        self.regions[tensor as usize]
    }

    /// Returns `true` if a region is inside its space.
    pub fn contain(&self, region: Region) -> bool {
        self.spaces.get(region.space as usize).is_some_and(|&size| region.end <= size)
    }
}
