//! The removed copies of a graph, and why other copies stay.

use crate::graph::{GraphEdit, TensorId};
use crate::placement::Bytes;

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
