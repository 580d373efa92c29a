//! Replaces forward results of a live training graph by nodes that compute them again in the backward pass.

use std::ptr::NonNull;

use crate::graph::order::Hazards;
use crate::graph::recompute::{NotRecomputed, Recomputation, RecomputeEffort, Subject, recompute, work_of};
use crate::graph::{Requests, TensorId};
use crate::placement::Bytes;

use crate::ggml::bindings::{ggml_cgraph, ggml_context};
use crate::ggml::extensions::apply::{LiveEdit, LiveOrigin};
use crate::ggml::extensions::budget::{Budgeted, NotFitted, expect_room, ids, within};
use crate::ggml::extensions::compute_buffer::ComputeBuffer;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::read::memory::same_memory;
use crate::ggml::read::requested::Requested;
use crate::ggml::read::{ReadGraph, read};

/// The goal of a recomputation of a live graph.
#[derive(Clone, Copy, Debug)]
pub struct RecomputeRequest<'r, 'g> {
    /// The buffer type of the future compute buffer, if known.
    pub buffer_type: Option<BufferType>,
    /// The most bytes that the compute buffer may need.
    pub budget: Bytes,
    /// Tensors that must not be computed again.
    pub retained: &'r [TensorRef<'g>],
    /// The work limit of the search.
    pub effort: RecomputeEffort,
}

impl Budgeted for Recomputation {
    type Refusal = NotRecomputed;
    const NEW_TENSORS: &'static str = "copies of nodes";
    const HELPS: &'static str = "retain less, or allow more effort";

    fn planned_bytes(&self) -> Bytes {
        self.after.bytes
    }
}

/// Searches for what to compute again, and changes the graph: its list of nodes, and the sources of the backward pass.
/// Copies are new tensors in `context`. Calls `note` with each node that runs again and its copy.
///
/// # Errors
/// [`NotFitted`]; then nothing has changed.
///
/// # Safety
/// `context` and `graph` are live, and no other thread uses them or the graph's tensors. No [`GraphRef`] of the graph
/// is used afterwards.
pub unsafe fn recompute_graph(
    runtime: &'static Runtime,
    context: NonNull<ggml_context>,
    graph: NonNull<ggml_cgraph>,
    request: RecomputeRequest<'_, '_>,
    progress: &mut dyn FnMut(f64) -> bool,
    note: &mut dyn FnMut(TensorRef<'_>, TensorRef<'_>),
) -> Result<Recomputation, NotFitted<Recomputation>> {
    // SAFETY: a live graph of this thread, as the caller guarantees.
    let live = unsafe { GraphRef::new(graph) };
    let types = ComputeBuffer::new(runtime, request.buffer_type).types();
    let reading = read(runtime, &types, live, &Requested::default());
    let found = within(search(runtime, &reading, live, request, progress)?, request.budget)?;
    // SAFETY: a live graph and context of this thread, as the caller guarantees.
    unsafe { expect_room(runtime, context, graph, found.items.len(), found.again().count()) }?;
    let edited = &found.edited;
    let origin = |(id, &origin): (TensorId, &TensorId)| LiveOrigin {
        tensor: reading.tensors[origin as usize],
        is_new: edited.is_new(id),
        operation: None,
    };
    let origins = (0..).zip(&edited.origins).map(origin).collect();
    let name = |_: TensorId, given: &str| format!("{given} (again)");
    let edit = LiveEdit { runtime, graph: &edited.graph, origins, name: &name, parameter: &|_| None };
    // SAFETY: there is room, which was checked; context and graph are live and used by no other thread.
    let tensors = unsafe { edit.apply(context, graph) };
    let copies = (0..).zip(tensors).filter(|&(id, _)| edited.is_new(id));
    let mut copies: Vec<(TensorId, TensorRef<'_>)> =
        copies.map(|(id, copy)| (edited.origins[id as usize], copy)).collect();
    copies.sort_unstable_by_key(|&(node, _)| node);
    copies.into_iter().for_each(|(node, copy)| note(reading.tensors[node as usize], copy));
    Ok(found)
}

fn search(
    runtime: &'static Runtime,
    reading: &ReadGraph<'_>,
    live: GraphRef<'_>,
    request: RecomputeRequest<'_, '_>,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<Recomputation, NotFitted<Recomputation>> {
    let RecomputeRequest { buffer_type, budget, retained, effort } = request;
    let work: Vec<u64> = (0..).take(reading.tensors.len()).map(|id| work_of(&reading.graph, id)).collect();
    let mut kept = vec![false; reading.tensors.len()];
    ids(retained, &reading.tensors)?.into_iter().for_each(|id| kept[id as usize] = true);
    let aliases = same_memory(runtime, reading);
    let subject = Subject { graph: &reading.graph, same_memory: &aliases, work: &work, kept: &kept };
    let hazards = Hazards::new(&reading.graph, &aliases);
    let (leafs, nodes) = (vec![0; live.leafs.len()], vec![0; live.nodes.len()]);
    let requests = Requests { leafs: &leafs, nodes: &nodes };
    let buffer = ComputeBuffer::new(runtime, buffer_type);
    let mut sizes = buffer.sizes(&reading.tensors);
    recompute(subject, &[buffer.spec()], requests, &mut sizes, &hazards, budget, effort, progress)
        .map_err(NotFitted::Graph)
}
