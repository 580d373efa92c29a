//! Facts about tensors that the graph does not hold.

use std::fmt;

use crate::graph::{Strides, TensorId};
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

/// Facts about a graph besides its nodes. The lists are by tensor.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// The layouts that its operation can write.
    pub writes: &'a [Strides],
    /// Where its memory is; any value for views.
    pub memory: &'a [Storage],
    /// The first tensor whose memory overlaps with its own, or itself.
    pub same_memory: &'a [TensorId],
    /// True if the source slot for the destination of its result is free.
    pub has_slot: &'a [bool],
    /// With how many computing nodes before it ggml's CPU backend may fuse it.
    pub fused: &'a [u8],
    /// The memory that an allocator will plan.
    pub target: CopyTarget,
    /// Addresses of results on other devices than the CPU are multiples of this.
    pub alignment: Bytes,
    /// Returns `true` if the first tensor can be computed where the second, which has a buffer, is.
    pub runs_at: &'a dyn Fn(TensorId, TensorId) -> bool,
}

impl fmt::Debug for Facts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Facts").field("target", &self.target).finish_non_exhaustive()
    }
}
