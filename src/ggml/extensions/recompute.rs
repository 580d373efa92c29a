//! Replaces forward results of a live training graph by nodes that compute them again in the backward pass.

use std::collections::HashMap;
use std::ffi::CString;
use std::ptr::NonNull;

use crate::graph::order::Hazards;
use crate::graph::recompute::{NotRecomputed, Recomputation, RecomputeEffort, Subject, recompute, work_of};
use crate::graph::{Effect, Requests, TensorId};
use crate::placement::Bytes;

use crate::ggml::bindings::{ggml_cgraph, ggml_context};
use crate::ggml::extensions::budget::{Budgeted, NotFitted, expect_room, ids, within};
use crate::ggml::extensions::compute_buffer::ComputeBuffer;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, MAX_SOURCES, TensorRef};
use crate::ggml::live::tensor_mut::TensorMut;
use crate::ggml::live::use_counts::UseCounts;
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
    let copies = found.again().count();
    // SAFETY: a live graph and context of this thread, as the caller guarantees.
    unsafe { expect_room(runtime, context, graph, found.items.len(), copies) }?;
    let given = live.nodes.to_vec();
    let mut copies = Copies { runtime, context, of: HashMap::new() };
    let copied: Vec<(TensorRef<'_>, TensorRef<'_>)> =
        found.again().map(|step| given[step as usize]).map(|node| (node, copies.add(node))).collect();
    given[found.boundary as usize..].iter().for_each(|&node| copies.replace_sources(node));
    let order = found.items.iter().map(|item| {
        let node = given[item.step as usize];
        if item.again { copies.copy_of(node).unwrap_or(node) } else { node }
    });
    let order: Vec<TensorRef<'_>> = order.collect();
    // SAFETY: the graph has room for all nodes, which was checked; `live` is not used any more.
    unsafe { list_nodes(runtime, graph, &copied, &order) };
    // SAFETY: a live graph of this ggml and of this thread.
    if let Some(counts) = unsafe { UseCounts::of(runtime, graph) } {
        count_uses(counts, &copied, &order);
    }
    copied.iter().for_each(|&(node, copy)| note(node, copy));
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
    let operations = &runtime.operations;
    let effects: Vec<Effect> = reading.tensors.iter().map(|tensor| operations.effect(tensor.op())).collect();
    let work = |(id, tensor): (TensorId, &TensorRef<'_>)| {
        work_of(&reading.graph, id, operations.name(tensor.op()).to_str().unwrap_or_default())
    };
    let work: Vec<u64> = (0..).zip(&reading.tensors).map(work).collect();
    let mut kept = vec![false; reading.tensors.len()];
    ids(retained, &reading.tensors)?.into_iter().for_each(|id| kept[id as usize] = true);
    let aliases = same_memory(runtime, reading);
    let subject = Subject { graph: &reading.graph, effects: &effects, same_memory: &aliases, work: &work, kept: &kept };
    let hazards = Hazards::new(&reading.graph, &effects, &aliases);
    let (leafs, nodes) = (vec![0; live.leafs.len()], vec![0; live.nodes.len()]);
    let requests = Requests { leafs: &leafs, nodes: &nodes };
    let buffer = ComputeBuffer::new(runtime, buffer_type);
    let mut sizes = buffer.sizes(&reading.tensors);
    recompute(subject, &[buffer.spec()], requests, &mut sizes, &hazards, budget, effort, progress)
        .map_err(NotFitted::Graph)
}

/// Copies of nodes, in a context.
struct Copies<'g> {
    runtime: &'static Runtime,
    context: NonNull<ggml_context>,
    /// By the address of the node.
    of: HashMap<usize, TensorRef<'g>>,
}

impl<'g> Copies<'g> {
    fn copy_of(&self, node: TensorRef<'_>) -> Option<TensorRef<'g>> {
        self.of.get(&node.address()).copied()
    }

    /// Adds a copy of a node without memory, after those of its sources. It uses the copies that there are.
    fn add(&mut self, node: TensorRef<'g>) -> TensorRef<'g> {
        let functions = &self.runtime.functions;
        // SAFETY: a live context with room for a tensor, and a live tensor.
        let copy = unsafe { (functions.ggml_view_tensor)(self.context.as_ptr(), node.as_ptr()) };
        // SAFETY: a new tensor in a live context.
        let copy = unsafe { TensorRef::new(copy) }.expect("the context has room, which was checked");
        let name = CString::new(format!("{} (again)", node.name())).unwrap_or_default();
        // SAFETY: a live tensor, and a string that ggml copies as far as there is room.
        unsafe { (functions.ggml_set_name)(copy.as_ptr(), name.as_ptr()) };
        let root = node.view_source().map(|root| self.copy_of(root).unwrap_or(root));
        self.of.insert(node.address(), copy);
        // SAFETY: the copy is new, and no reference into it is held.
        let mut writer = unsafe { TensorMut::new(copy) };
        writer.set_operation_of(node);
        match root {
            Some(root) => writer.set_view(root, node.view_offset()),
            None => writer.clear_view(),
        }
        for slot in 0..MAX_SOURCES {
            if let Some(source) = node.source(slot) {
                // A cast has itself as a source, whose copy this is.
                writer.set_source(slot, self.copy_of(source).unwrap_or(source));
            }
        }
        copy
    }

    /// Makes a node of the backward pass use the copies of its sources, and a view a view of the copy.
    fn replace_sources(&self, node: TensorRef<'_>) {
        for slot in 0..MAX_SOURCES {
            if let Some(copy) = node.source(slot).and_then(|source| self.copy_of(source)) {
                // SAFETY: no reference into the node is held.
                unsafe { TensorMut::new(node) }.set_source(slot, copy);
            }
        }
        if let Some(copy) = node.view_source().and_then(|root| self.copy_of(root)) {
            // SAFETY: no reference into the node is held.
            unsafe { TensorMut::new(node) }.set_view(copy, node.view_offset());
        }
    }
}

/// Lists the copies in the graph, and all nodes in their new order.
///
/// # Safety
/// `graph` is live, has room for all nodes, and no other thread uses it; no [`GraphRef`] of it is used afterwards.
unsafe fn list_nodes(
    runtime: &Runtime,
    graph: NonNull<ggml_cgraph>,
    copied: &[(TensorRef<'_>, TensorRef<'_>)],
    order: &[TensorRef<'_>],
) {
    for (_, copy) in copied {
        // SAFETY: a live graph with room, and a live tensor whose sources are in the graph.
        unsafe { (runtime.functions.ggml_build_forward_expand)(graph.as_ptr(), copy.as_ptr()) };
    }
    // SAFETY: the graph has room and is used by no other thread; no `GraphRef` of it is used from here on.
    unsafe { GraphRef::set_nodes(graph, order) };
}

/// Counts the uses of the copies, as backends expect it. A copy has at least the uses that ggml counted of its node, so
/// that backends fuse it only where they would have fused the node: other kernels may round differently.
fn count_uses(mut counts: UseCounts, copied: &[(TensorRef<'_>, TensorRef<'_>)], order: &[TensorRef<'_>]) {
    let mut uses: HashMap<usize, i32> = HashMap::new();
    for source in order.iter().flat_map(|node| node.sources()) {
        *uses.entry(source.address()).or_default() += 1;
    }
    for &(node, copy) in copied {
        let own = uses.get(&copy.address()).copied().unwrap_or(0);
        counts.set(copy, own.max(counts.of_tensor(node)));
    }
}
