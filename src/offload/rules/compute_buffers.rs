//! The compute buffer of each backend: the scheduled graph, planned.

use crate::graph::snapshot::Snapshot;
use crate::graph::{
    BufferSpec, GraphPlan, PlanError, Requests, Sizes, TensorId, Wishes, Workspace, ggml_alloc_sizes, plan,
};
use crate::placement::Bytes;

use super::backends::{Backends, BufferTypeIndex};
use super::scheduled_graph::{Origin, ScheduledGraph};

/// The size of a tensor of a scheduled graph, before padding.
pub trait ScheduledSizes {
    /// Returns the bytes that a buffer type requires for a tensor. A copy has the layout of the tensor that it copies,
    /// and no operation.
    fn alloc_size(&mut self, origin: Origin, buffer_type: BufferTypeIndex) -> Bytes;
}

impl<F: FnMut(Origin, BufferTypeIndex) -> Bytes> ScheduledSizes for F {
    fn alloc_size(&mut self, origin: Origin, buffer_type: BufferTypeIndex) -> Bytes {
        self(origin, buffer_type)
    }
}

/// Returns the sizes of a captured graph: for each tensor, the size that the buffer type it was captured in requires.
/// They hold for all buffer types that pad no rows.
pub fn captured_sizes(snapshot: &Snapshot) -> impl FnMut(Origin, BufferTypeIndex) -> Bytes {
    move |origin, _| match origin {
        Origin::Tensor(id) | Origin::Staged { of: id } => snapshot.tensors[id as usize].size,
        Origin::Copy { of, .. } | Origin::Marker { of } => snapshot.tensors[of as usize].nbytes,
    }
}

/// The planned compute buffers of a scheduled graph.
#[derive(Debug)]
pub struct ComputeBuffers {
    /// By backend: the bytes of its compute buffer, all chunks together. If several backends share a buffer type, the
    /// first has them, as `ggml_backend_sched_get_buffer_size` reports it.
    pub bytes: Vec<Bytes>,
    /// The plan; its buffers are [`Backends::compute_types`].
    pub plan: GraphPlan,
}

/// Plans the compute buffers of a scheduled graph, with the rules and efforts of the buffer types: the bytes that a
/// process with lastuse allocates.
///
/// # Errors
/// [`PlanError::TooLarge`] when sizes overflow.
pub fn compute_buffers(
    scheduled: &ScheduledGraph,
    backends: &Backends,
    sizes: &mut impl ScheduledSizes,
) -> Result<ComputeBuffers, PlanError> {
    let types = backends.compute_types();
    let (leafs, nodes) = scheduled.requested_buffers(backends);
    let requests = Requests { leafs: &leafs, nodes: &nodes };
    let mut sizes =
        |id: TensorId, buffer: u32| sizes.alloc_size(scheduled.origins[id as usize], types[buffer as usize]);
    let sizes: &mut dyn Sizes = &mut sizes;
    let plan = plan(
        &scheduled.graph,
        &specs(backends, &types),
        requests,
        sizes,
        Wishes::default(),
        &mut Workspace::default(),
    )?;
    let bytes: Vec<Bytes> = plan.buffers.iter().map(|buffer| buffer.placement.size()).collect();
    Ok(ComputeBuffers { bytes: by_backend(backends, &bytes), plan })
}

/// Returns, by backend, the bytes that ggml's own allocator takes for a scheduled graph; see [`ComputeBuffers::bytes`].
///
/// # Errors
/// [`PlanError::TooLarge`] when sizes overflow.
pub fn ggml_compute_bytes(
    scheduled: &ScheduledGraph,
    backends: &Backends,
    sizes: &mut impl ScheduledSizes,
) -> Result<Vec<Bytes>, PlanError> {
    let types = backends.compute_types();
    let (leafs, nodes) = scheduled.requested_buffers(backends);
    let requests = Requests { leafs: &leafs, nodes: &nodes };
    let mut sizes =
        |id: TensorId, buffer: u32| sizes.alloc_size(scheduled.origins[id as usize], types[buffer as usize]);
    let found = ggml_alloc_sizes(&scheduled.graph, &specs(backends, &types), requests, &mut sizes);
    let bytes = found.ok_or(PlanError::TooLarge { buffer: 0, bytes: Bytes::MAX })?;
    Ok(by_backend(backends, &bytes))
}

fn specs(backends: &Backends, types: &[BufferTypeIndex]) -> Vec<BufferSpec> {
    types.iter().map(|&buffer_type| backends.buffer_types[buffer_type as usize].buffer).collect()
}

/// Counts the bytes of each buffer once, at the first backend that has it.
fn by_backend(backends: &Backends, bytes: &[Bytes]) -> Vec<Bytes> {
    let buffers = backends.compute_buffers();
    let is_first = |backend: usize| !buffers[..backend].contains(&buffers[backend]);
    let of = |(backend, &buffer): (usize, &u32)| if is_first(backend) { bytes[buffer as usize] } else { 0 };
    buffers.iter().enumerate().map(of).collect()
}
