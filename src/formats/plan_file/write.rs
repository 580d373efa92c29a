//! Writes the file of a plan.

use serde::Serialize;

use crate::graph::order::Reordering;
use crate::graph::snapshot::Snapshot;
use crate::graph::{Address, GraphPlan};
use crate::placement::Bytes;

use super::{FORMAT, PlannedTensor};

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
