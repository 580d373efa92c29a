//! What must be known of tensors beside the graph.

use std::fmt;

use crate::graph::order::Effect;
use crate::graph::{Strides, TensorId};
use crate::placement::Bytes;

/// What an operation does, as far as it is a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No copy.
    Other,
    /// CPY: into its second source; or, where that is the node itself, into memory of its own.
    Into,
    /// CONT and DUP: into memory of its own.
    Whole,
    /// CONCAT: two sources, one behind the other.
    Concat,
}

impl Kind {
    /// By ggml's name of the operation.
    pub fn of(operation: &str) -> Self {
        match operation {
            "CPY" => Self::Into,
            "CONT" | "DUP" => Self::Whole,
            "CONCAT" => Self::Concat,
            _ => Self::Other,
        }
    }
}

/// Where the owner of memory has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Nowhere: an allocator will give it some.
    Planned,
    /// In host memory without a buffer: that of its context.
    Context {
        /// Its address.
        start: Bytes,
    },
    /// In a buffer.
    Buffer {
        /// Its address.
        start: Bytes,
        /// Is it memory that ggml's CPU backend computes in?
        cpu: bool,
    },
}

/// What is known of the memory that an allocator will give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nothing: it may be of several backends.
    Unknown,
    /// One buffer type of the CPU.
    Cpu,
    /// One buffer type of another device.
    Other,
}

/// What must be known of each tensor of a graph, by tensor.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// What running it can change.
    pub effects: &'a [Effect],
    /// Is it a copy?
    pub kinds: &'a [Kind],
    /// What layouts its operation can write.
    pub writes: &'a [Strides],
    /// Where it has its memory; of views nobody asks.
    pub memory: &'a [Memory],
    /// The first of those whose memory overlaps with its own; itself where there is none.
    pub same_memory: &'a [TensorId],
    /// Is the slot free that names where a result is wanted?
    pub has_slot: &'a [bool],
    /// With how many computing nodes before it ggml's CPU backend may compute it as one.
    pub fused: &'a [u8],
    /// What an allocator will give.
    pub target: Target,
    /// Addresses of results on other devices than the CPU are multiples of this.
    pub alignment: Bytes,
    /// Can the first tensor be computed where the second, which has a buffer, is?
    pub runs_at: &'a dyn Fn(TensorId, TensorId) -> bool,
}

impl fmt::Debug for Facts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Facts").field("target", &self.target).finish_non_exhaustive()
    }
}
