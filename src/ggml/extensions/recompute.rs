//! Replaces forward results of a live training graph by nodes that compute them again in the backward pass.

use std::ptr::NonNull;

use crate::graph::recompute::{Recomputation, RecomputeEffort, TrainingGraph, recompute, work_of};
use crate::graph::{Graph, TensorId};
use crate::placement::Bytes;

use crate::ggml::bindings::{ggml_cgraph, ggml_context};
use crate::ggml::extensions::apply::{LiveEdit, LiveOrigin};
use crate::ggml::extensions::pass::{Budgeted, GivenGraph, NotFitted, fit};
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;

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
    const NEW_TENSORS: &'static str = "copies of nodes";
    const HELPS: &'static str = "retain less, or allow more effort";

    fn planned_bytes(&self) -> Bytes {
        self.after.bytes
    }

    fn room(&self) -> Option<(usize, usize)> {
        Some((self.items.len(), self.again().count()))
    }
}

/// Searches for what to compute again, and changes the graph: its list of nodes, and the sources of the backward pass.
/// Copies are new tensors in `context`. Calls `note` with each node that runs again and its copy.
///
/// # Errors
/// [`NotFitted`]; then nothing has changed.
///
/// # Safety
/// `context` and `graph` are live, and no other thread uses them or the graph's tensors. No `GraphRef` of the graph
/// is used afterwards.
pub unsafe fn recompute_graph(
    runtime: &'static Runtime,
    context: NonNull<ggml_context>,
    graph: NonNull<ggml_cgraph>,
    request: RecomputeRequest<'_, '_>,
    progress: &mut dyn FnMut(f64) -> bool,
    note: &mut dyn FnMut(TensorRef<'_>, TensorRef<'_>),
) -> Result<Recomputation, NotFitted<Recomputation>> {
    let goal = (request.buffer_type, request.budget);
    let search = |given: &GivenGraph<'_>| search(given, request, progress);
    let apply = |given: &GivenGraph<'_>, found: &Recomputation| {
        let (edited, tensors) = (&found.edited, &given.reading.tensors);
        // SAFETY: there is room, which `fit` has checked; context and graph are live and used by no other thread.
        let live = unsafe { rewrite(runtime, context, graph, found, tensors) };
        let copies = (0..).zip(live).filter(|&(id, _)| edited.is_new(id));
        let mut copies: Vec<(TensorId, TensorRef<'_>)> =
            copies.map(|(id, copy)| (edited.origins[id as usize], copy)).collect();
        copies.sort_unstable_by_key(|&(node, _)| node);
        copies.into_iter().for_each(|(node, copy)| note(tensors[node as usize], copy));
    };
    // SAFETY: live, and used by no other thread: see "# Safety".
    unsafe { fit(runtime, (context, graph), goal, search, apply) }
}

/// Changes `graph` to the one that was found: its list of nodes, and the sources of the backward pass. Copies are new tensors in
/// `context`. `given` are the tensors of the graph by id. Returns those of the new one by id.
///
/// # Safety
/// `context` and `graph` are live and have the room that [`Budgeted::room`] states, and no other thread uses them or the graph's
/// tensors. No `GraphRef` of the graph is used afterwards.
pub unsafe fn rewrite<'g>(
    runtime: &'static Runtime,
    context: NonNull<ggml_context>,
    graph: NonNull<ggml_cgraph>,
    found: &Recomputation,
    given: &[TensorRef<'g>],
) -> Vec<TensorRef<'g>> {
    let edited = &found.edited;
    let origin = |(id, &origin): (TensorId, &TensorId)| LiveOrigin {
        tensor: given[origin as usize],
        is_new: edited.is_new(id),
        operation: None,
    };
    let origins = (0..).zip(&edited.origins).map(origin).collect();
    let name = |_: TensorId, given: &str| format!("{given} (again)");
    let edit = LiveEdit { runtime, graph: &edited.graph, origins, name: &name, parameter: &|_| None };
    // SAFETY: context and graph are live, have the room, and no other thread uses them: see "# Safety".
    unsafe { edit.apply(context, graph) }
}

/// Returns the floating-point operations of each tensor of a graph.
pub fn work_by_tensor(graph: &Graph) -> Vec<u64> {
    (0..).take(graph.tensors().len()).map(|id| work_of(graph, id)).collect()
}

fn search(
    given: &GivenGraph<'_>,
    request: RecomputeRequest<'_, '_>,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<Recomputation, NotFitted<Recomputation>> {
    let graph = &given.reading.graph;
    let RecomputeRequest { budget, retained, effort, .. } = request;
    let work = work_by_tensor(graph);
    let kept = given.kept(retained)?;
    let aliases = given.same_memory();
    let (buffers, requests) = ([given.spec()], given.requests());
    let subject = TrainingGraph { graph, buffers: &buffers, requests, same_memory: &aliases, work: &work, kept: &kept };
    recompute(subject, &mut given.sizes(), budget, effort, progress).map_err(NotFitted::Graph)
}
