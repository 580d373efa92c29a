//! Plans in files: the format "lastuse-plan", version 1.

use serde::Serialize;

use crate::graph::GraphPlan;
use crate::graph::snapshot::Snapshot;
use crate::placement::Bytes;

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u64,
    label: &'a str,
    buffers: Vec<Buffer<'a>>,
    tensors: Vec<Tensor>,
}

#[derive(Serialize)]
struct Buffer<'a> {
    name: &'a str,
    size: Bytes,
    chunks: &'a [Bytes],
    lower_bound: Bytes,
    optimal: bool,
    strategy: &'static str,
}

#[derive(Serialize)]
struct Tensor {
    id: u64,
    buffer: u32,
    chunk: u32,
    offset: Bytes,
    size: Bytes,
}

/// One line of JSON: where every tensor that the plan gives memory to lies. Sizes are padded.
///
/// # Errors
/// None that is known: the data is plain.
pub fn plan_json(snapshot: &Snapshot, plan: &GraphPlan) -> serde_json::Result<String> {
    let buffers = snapshot.buffers.iter().zip(&plan.pools).map(|(buffer, pool)| Buffer {
        name: &buffer.name,
        size: pool.placement.size(),
        chunks: &pool.placement.chunks,
        lower_bound: pool.lower_bound,
        optimal: pool.is_optimal(),
        strategy: pool.strategy,
    });
    let tensors = snapshot.tensors.iter().zip(&plan.homes).filter_map(|(tensor, home)| {
        let home = (*home)?;
        let address = plan.address(home);
        let alignment = snapshot.buffers[home.pool as usize].alignment;
        let size = home.alloc_size.next_multiple_of(alignment);
        Some(Tensor { id: tensor.id, buffer: address.pool, chunk: address.chunk, offset: address.offset, size })
    });
    serde_json::to_string(&Document {
        format: "lastuse-plan",
        version: 1,
        label: &snapshot.label,
        buffers: buffers.collect(),
        tensors: tensors.collect(),
    })
}
