//! Plans in files: the format "lastuse-plan", version 1. One JSON object, compressed by gzip or not.

mod entries;
mod check;
mod read;
mod write;

use std::fmt;

use crate::graph::BufferIndex;
use crate::placement::{Bytes, ChunkId, Offset};

pub use check::{PlanDefect, PlanDefectKind, check};
pub use write::plan_json;

/// The name of the format, and its only version so far.
const FORMAT: (&str, u64) = ("lastuse-plan", 1);

/// A plan from a file, unchecked.
#[derive(Clone, Debug)]
pub struct PlanFile {
    /// The buffers.
    pub buffers: Vec<PlannedBuffer>,
    /// The ids of the nodes in the order to run them, where that is not the order of the graph.
    pub order: Option<Vec<u64>>,
    /// Every tensor with an address.
    pub tensors: Vec<PlannedTensor>,
}

/// A buffer of a plan.
#[derive(Clone, Debug)]
pub struct PlannedBuffer {
    /// The name of its type.
    pub name: String,
    /// Bytes of all chunks.
    pub size: Bytes,
    /// Bytes of each chunk.
    pub chunks: Vec<Bytes>,
    /// The lower bound that the file states.
    pub lower_bound: Bytes,
}

/// A tensor of a plan, as it is written and read.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct PlannedTensor {
    /// Its id in the file of the graph.
    pub id: u64,
    /// Its buffer.
    pub buffer: BufferIndex,
    /// The chunk of the buffer.
    pub chunk: ChunkId,
    /// Bytes from the start of the chunk.
    pub offset: Offset,
    /// Its bytes, padded to the alignment.
    pub size: Bytes,
}

/// A defect of the file of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedPlan(String);

impl fmt::Display for MalformedPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
