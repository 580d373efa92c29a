//! Where tensors lie, however that came about: by a plan, by a file, or because they were given these addresses.

use crate::graph::{Address, GraphPlan, TensorId};
use crate::placement::{Bytes, Offset};

/// Bytes of one address space, counted from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Index of the address space, such as a chunk of a buffer.
    pub space: u32,
    /// The first byte.
    pub start: Offset,
    /// The byte behind the last.
    pub end: Offset,
}

impl Region {
    /// How many bytes it has.
    pub fn size(self) -> Bytes {
        self.end.saturating_sub(self.start)
    }

    /// Have both a byte in common?
    pub fn meets(self, other: Self) -> bool {
        self.common(other).size() > 0
    }

    /// The bytes that are in both; none when the spaces differ.
    pub fn common(self, other: Self) -> Self {
        let start = self.start.max(other.start);
        let end = if self.space == other.space { self.end.min(other.end) } else { start };
        Self { space: self.space, start, end: end.max(start) }
    }
}

/// Where the tensors of a graph lie.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// By address space: its size. A region in a space that is not there reaches beyond its end.
    pub spaces: Vec<Bytes>,
    /// By tensor: the bytes that belong to it; `None` for views, and for those without memory to be looked at.
    pub regions: Vec<Option<Region>>,
}

impl Places {
    /// Where `plan` puts the tensors: the spaces are the chunks of the first buffer, then those of the next.
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

    /// The bytes that belong to a tensor.
    pub fn region(&self, tensor: TensorId) -> Option<Region> {
        self.regions[tensor as usize]
    }

    /// Does a region lie inside of its space?
    pub fn contain(&self, region: Region) -> bool {
        self.spaces.get(region.space as usize).is_some_and(|&size| region.end <= size)
    }
}
