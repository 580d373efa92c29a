//! Plans in files: the format "lastuse-plan", version 1. One JSON object, compressed by gzip or not.

mod check;
mod read;

use lastuse::graph::order::Reordering;
use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{Address, BufferIndex, GraphPlan, TensorId};
use lastuse::placement::{Bytes, ChunkId, Offset};
use serde::Serialize;

pub use check::{PlanDefect, PlanDefectKind, check};

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

/// The entries of a plan, matched with the tensors of a graph by id.
struct Entries<'p> {
    /// By tensor: its first entry.
    by_tensor: Vec<Option<&'p PlannedTensor>>,
    /// The ids of entries without a tensor in the graph.
    unknown: Vec<u64>,
    /// The tensors with several entries.
    twice: Vec<TensorId>,
}

impl<'p> Entries<'p> {
    /// Matches the entries of `plan` with the tensors of `snapshot`.
    fn new(snapshot: &Snapshot, plan: &'p PlanFile) -> Self {
        let ids = snapshot.tensor_ids();
        let mut found = Self { by_tensor: vec![None; snapshot.tensors.len()], unknown: Vec::new(), twice: Vec::new() };
        for entry in &plan.tensors {
            match ids.get(&entry.id) {
                None => found.unknown.push(entry.id),
                Some(&id) if found.by_tensor[id as usize].is_some() => found.twice.push(id),
                Some(&id) => found.by_tensor[id as usize] = Some(entry),
            }
        }
        found
    }
}

#[derive(Serialize)]
struct PlanDocument<'a> {
    format: &'static str,
    version: u64,
    label: &'a str,
    buffers: Vec<BufferEntry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<Vec<u64>>,
    tensors: Vec<PlannedTensor>,
}

#[derive(Serialize)]
struct BufferEntry<'a> {
    name: &'a str,
    size: Bytes,
    chunks: &'a [Bytes],
    lower_bound: Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    given_order_lower_bound: Option<Bytes>,
    optimal: bool,
    strategy: &'static str,
}

/// Returns a plan as one line of JSON, with the address and padded size of every tensor that has one. For a reordered
/// graph, it also has the ids of the nodes in the order to run them, and for each buffer the lower bound of the given
/// order.
///
/// # Errors
/// None in practice: all data can be serialized.
pub fn plan_json(snapshot: &Snapshot, plan: &GraphPlan, reordering: Option<&Reordering>) -> serde_json::Result<String> {
    let buffers = snapshot.buffers.iter().zip(&plan.buffers).enumerate().map(|(index, (buffer, plan))| BufferEntry {
        name: &buffer.name,
        size: plan.placement.size(),
        chunks: &plan.placement.chunks,
        lower_bound: plan.lower_bound,
        given_order_lower_bound: reordering.map(|found| found.before[index].lower_bound),
        optimal: plan.is_optimal(),
        strategy: plan.strategy,
    });
    let tensors = (0..).zip(&snapshot.tensors).filter_map(|(id, tensor)| {
        let (Address { buffer, chunk, offset }, alloc_size) = plan.placed(id)?;
        let size = alloc_size.next_multiple_of(snapshot.buffers[buffer as usize].alignment);
        Some(PlannedTensor { id: tensor.id, buffer, chunk, offset, size })
    });
    let (format, version) = FORMAT;
    serde_json::to_string(&PlanDocument {
        format,
        version,
        label: &snapshot.label,
        buffers: buffers.collect(),
        order: reordering.map(|_| snapshot.graph.nodes().iter().map(|&id| snapshot.tensors[id as usize].id).collect()),
        tensors: tensors.collect(),
    })
}
