//! Plans: an address for every tensor of a graph. Uses the graph, `buffer`, `live_ranges` and `kernels`.
//!
//! - `as_ggml`: the plan that ggml's own allocator makes, and the inputs that a plan leaves intact
//! - `prefer`: the placement of the same size whose kernels cost least
//! - `planner`: makes plans

mod as_ggml;
mod prefer;
mod planner;

use std::cmp::Reverse;
use std::fmt;

use crate::graph::live_ranges::Workspace;
use crate::graph::{Address, Allocation, BufferIndex, BufferSpec, InactiveNode, TensorId};
use crate::placement::{Bytes, Choice, ChunkId, Problem, padded};

pub use as_ggml::{accessing_nodes, ggml_alloc_sizes, intact_inputs, plan_as_ggml, read_inputs};
pub use planner::{Kept, Wishes, plan, shared_live_ranges};
pub use prefer::Devices;

/// The placement of one buffer's blocks, and its lower bound.
pub type BufferPlan = Choice;

/// The planned address of every tensor of a graph.
#[derive(Debug)]
pub struct GraphPlan {
    /// By buffer: the blocks.
    pub problems: Vec<Problem>,
    /// By buffer: their placement.
    pub buffers: Vec<BufferPlan>,
    /// By tensor; `None` for views, external tensors, unused tensors and inactive nodes.
    pub allocations: Vec<Option<Allocation>>,
    /// The inactive nodes, by id.
    pub inactive: Vec<TensorId>,
    /// The inactive nodes that own memory, by id.
    pub inactive_owners: Vec<InactiveNode>,
}

impl GraphPlan {
    /// Returns the bytes of each buffer.
    pub fn sizes(&self) -> impl Iterator<Item = Bytes> {
        self.buffers.iter().map(|buffer| buffer.placement.size())
    }

    /// Returns the bytes of all buffers.
    pub fn bytes(&self) -> Bytes {
        self.sizes().fold(0, Bytes::saturating_add)
    }

    /// Returns the address of a tensor with this allocation.
    pub fn address(&self, allocation: Allocation) -> Address {
        let location = self.buffers[allocation.buffer as usize].placement.locations[allocation.block as usize];
        Address { buffer: allocation.buffer, chunk: location.chunk, offset: location.offset + allocation.within }
    }

    /// Returns the address of an inactive node: that of the source that it may be in place of, or the start of the
    /// largest chunk of its buffer, whatever else is there. No backend accesses it, but programs may read any tensor of
    /// a graph, and the scheduler copies those that are used on another backend.
    fn address_of_inactive(&self, node: &InactiveNode) -> Address {
        if let Some((address, _)) = node.in_place_of.and_then(|source| self.placed(source)) {
            return address;
        }
        let chunks = &self.buffers[node.buffer as usize].placement.chunks;
        Address { buffer: node.buffer, chunk: largest(chunks), offset: 0 }
    }

    /// Returns the address of a tensor, where the plan has one, and the bytes that its buffer type requires for it.
    pub fn placed(&self, tensor: TensorId) -> Option<(Address, Bytes)> {
        match self.allocations[tensor as usize] {
            Some(allocation) => Some((self.address(allocation), allocation.alloc_size)),
            None => find_inactive(&self.inactive_owners, tensor)
                .map(|node| (self.address_of_inactive(node), node.alloc_size)),
        }
    }

    /// Returns `true` for an inactive node.
    pub fn is_inactive(&self, tensor: TensorId) -> bool {
        self.inactive.binary_search(&tensor).is_ok()
    }

    /// Enlarges the largest chunk of each buffer where an inactive node needs more. Blocks rarely take less.
    fn make_room_for_inactive(&mut self, buffers: &[BufferSpec]) {
        for node in self.inactive_owners.iter().filter(|node| node.in_place_of.is_none()) {
            let BufferPlan { placement, lower_bound, .. } = &mut self.buffers[node.buffer as usize];
            let size = padded(node.alloc_size, buffers[node.buffer as usize].alignment);
            if placement.chunks.is_empty() {
                placement.chunks.push(0);
            }
            let chunk = largest(&placement.chunks) as usize;
            if let Some(chunk) = placement.chunks.get_mut(chunk) {
                *chunk = size.max(*chunk);
            }
            *lower_bound = size.max(*lower_bound);
        }
    }

    /// Leaves the memory of the plan to the next one.
    pub fn leave_to(self, workspace: &mut Workspace) {
        let Self { problems, buffers, allocations, inactive, inactive_owners } = self;
        (workspace.allocations, workspace.inactive, workspace.inactive_owners) =
            (allocations, inactive, inactive_owners);
        workspace.reuse_problems(problems);
        if let Some(buffer) = buffers.into_iter().next() {
            workspace.placement.reuse(buffer.placement);
        }
    }

    /// Returns `true` if every buffer is at its lower bound and in one chunk: no other choice of in-place sources can
    /// shrink it.
    fn is_at_bound(&self) -> bool {
        let is_at_bound = |buffer: &BufferPlan| buffer.placement.size() == buffer.lower_bound;
        self.buffers.iter().all(|buffer| is_at_bound(buffer) && buffer.placement.chunks.len() <= 1)
    }
}

/// Why a graph cannot be planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The tensors of a buffer add up to more than can be addressed.
    TooLarge {
        /// The buffer.
        buffer: BufferIndex,
        /// The sum, or the largest number there is.
        bytes: Bytes,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { buffer, bytes } => {
                write!(f, "the tensors of buffer {buffer} add up to {bytes} bytes, more than can be addressed")
            }
        }
    }
}

/// Returns the entry of `tensor` in `inactive_owners`, which are sorted by tensor.
fn find_inactive(inactive_owners: &[InactiveNode], tensor: TensorId) -> Option<&InactiveNode> {
    inactive_owners.binary_search_by_key(&tensor, |node| node.tensor).ok().map(|at| &inactive_owners[at])
}

/// Returns the first of the largest chunks.
fn largest(chunks: &[Bytes]) -> ChunkId {
    let largest = chunks.iter().enumerate().max_by_key(|&(chunk, &size)| (size, Reverse(chunk)));
    largest.map_or(0, |(chunk, _)| ChunkId::try_from(chunk).expect("few chunks"))
}
