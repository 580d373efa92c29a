//! A pass that removes copies: the producer of a copied value writes directly where the copy would go. Uses the graph
//! and `access`.
//!
//! ```text
//!  before   | product |--copy--> | part of a cache |       after   | product, in part of a cache |
//! ```
//!
//! Nodes are visited from the last to the first. So a result that is copied twice, into a CONCAT and with that into a
//! cache, goes directly to the destination of the last copy.
//!
//! - `element_order`: strides that put each element where the copy would have put it
//! - `state`: the edit of the graph, the accesses that the pass must respect, and the nodes that compute copied tensors
//! - `moves`: where the producer would write
//! - `checks`: whether it can, and no other node accesses that memory in between
//! - `removal`: visits all copies, and removes those it can

mod element_order;
mod state;
mod moves;
mod checks;
mod removal;

#[cfg(test)]
mod tests;

pub use removal::find;

use std::fmt;

use crate::graph::{GraphEdit, Strides, TensorId};
use crate::placement::Bytes;

/// Where the memory of a tensor is that is not a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Not allocated yet: an allocator will plan it.
    Planned,
    /// In the host memory of its context, without a buffer.
    Context {
        /// Its address.
        start: Bytes,
    },
    /// In a buffer.
    Buffer {
        /// Its address.
        start: Bytes,
        /// True for memory that ggml's CPU backend computes in.
        cpu: bool,
    },
}

/// Facts about the memory that an allocator will plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyTarget {
    /// Nothing: it may belong to several backends.
    Unknown,
    /// One buffer type of the CPU.
    Cpu,
    /// One buffer type of another device.
    Other,
}

/// What is known of a tensor besides the graph.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The layouts that its operation can write.
    pub writes: Strides,
    /// Where its memory is; any value for views.
    pub memory: Storage,
    /// True if the source slot for the destination of its result is free.
    pub has_slot: bool,
    /// With how many computing nodes before it ggml's CPU backend may fuse it.
    pub fused: u8,
}

/// Facts about a graph besides its nodes.
#[derive(Clone, Copy)]
pub struct CopyFacts<'a> {
    /// By tensor.
    pub tensors: &'a [Known],
    /// By tensor: the first tensor whose memory overlaps with its own, or itself.
    pub same_memory: &'a [TensorId],
    /// The memory that an allocator will plan.
    pub target: CopyTarget,
    /// Addresses of results on other devices than the CPU are multiples of this.
    pub alignment: Bytes,
    /// Returns `true` if the first tensor can be computed where the second, which has a buffer, is.
    pub runs_at: &'a dyn Fn(TensorId, TensorId) -> bool,
}

impl fmt::Debug for CopyFacts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyFacts").field("target", &self.target).finish_non_exhaustive()
    }
}

/// How much the removal may change the memory that an allocator plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Freedom {
    /// Nothing: other nodes may only write to memory that is allocated already.
    Nothing,
    /// Which tensor owns it, as long as no live range gets longer.
    Owners,
    /// Live ranges too: a CONCAT is then live from the first of its operands on.
    LiveRanges,
}

/// Why a copy stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It converts to another type.
    Type,
    /// No node of the graph computes the copied tensor into its own memory: it is an input, a weight, written in place
    /// of something else, flagged, or retained.
    Producer,
    /// Another node reads the copied tensor.
    Readers,
    /// It copies a part of what was computed, or some of it several times.
    Part,
    /// The operation is not known to write such a layout.
    Layout,
    /// Another node accesses the memory between the producer and the copy, or it is not allocated so early.
    Order,
    /// The producer reads memory where it would write.
    Overlap,
    /// Nothing is known of the memory, or an allocator has planned it already.
    Memory,
    /// The producer would have to run on another device.
    Device,
    /// The source slot for the destination of the result is taken.
    Slot,
    /// The peak would rise.
    Peak,
}

impl Reason {
    /// The number of reasons.
    pub const COUNT: usize = Self::Peak as usize + 1;
}

/// The removed copies, and what changes in the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The removed copies, from the last to the first.
    pub removed: Vec<TensorId>,
    /// Bytes that are no longer copied.
    pub bytes: Bytes,
    /// How many stay, by [`Reason`].
    pub left: [u32; Reason::COUNT],
    /// The graph without them; `None` where none is removed. A removed copy is a view of memory that other nodes write, or
    /// such memory, without operation and sources. A node that writes to the memory of another tensor has that tensor
    /// as one more source.
    pub edit: Option<GraphEdit>,
}

impl Found {
    /// Returns how many copies stay for this reason.
    pub fn left_for(&self, reason: Reason) -> u32 {
        self.left[reason as usize]
    }
}
