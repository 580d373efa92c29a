//! Removes needless copies from a live graph.

use crate::graph::copies::{CopyFacts, CopyTarget, Found, Freedom, Known, Storage, find};
use crate::graph::{BufferIndex, Edited, Graph, Op, Requests, Sizes, TensorId, Workspace, live_ranges};
use crate::placement::{Bytes, lower_bound};

use crate::ggml::extensions::apply::{LiveEdit, LiveOrigin};
use crate::ggml::extensions::pass::GivenGraph;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::outputs::check::writes;
use crate::ggml::outputs::redirect::ORDERED_OUTPUT_SLOT;
use crate::ggml::read::ReadGraph;

/// Removes copies from `graph`: changes its tensors, not its lists. `buffer_type` is that of all memory which an
/// allocator will assign; without it, only copies whose removal does not depend on it are removed. The peak of live
/// bytes does not grow. Tensors whose names the settings retain stay as they are.
pub fn remove_copies(runtime: &'static Runtime, graph: GraphRef<'_>, buffer_type: Option<BufferType>) -> Found {
    let given = GivenGraph::new(runtime, graph, buffer_type);
    let found = find_copies(&given);
    if let Some(edit) = &found.edit {
        change(runtime, &given.reading, &edit.clone().finish());
    }
    found
}

fn find_copies(given: &GivenGraph<'_>) -> Found {
    let (runtime, reading) = (given.runtime, &given.reading);
    if reading.graph.tensors().iter().all(|tensor| tensor.op.copies().is_none()) {
        return Found::default();
    }
    let (tensors, aliases) = (known(runtime, reading), given.same_memory());
    let runs_at = |node: TensorId, place: TensorId| {
        let [node, place] = [node, place].map(|id| reading.tensors[id as usize]);
        runs_at(runtime, node, place)
    };
    let facts = CopyFacts {
        tensors: &tensors,
        same_memory: &aliases,
        target: target(given.buffer_type),
        alignment: given.alignment(),
        runs_at: &runs_at,
    };
    let mut before = None;
    for freedom in [Freedom::LiveRanges, Freedom::Owners] {
        let found = find(&reading.graph, facts, freedom);
        let is_planned = |copy: &TensorId| tensors[reading.graph.root(*copy) as usize].memory == Storage::Planned;
        let Some(edit) = found.edit.as_ref().filter(|_| found.removed.iter().any(is_planned)) else { return found };
        let old_peak = *before.get_or_insert_with(|| peak_bytes(given, &reading.graph, |id| id));
        let Edited { graph, origins, .. } = edit.clone().finish();
        if peak_bytes(given, &graph, |id| origins[id as usize]) <= old_peak {
            return found;
        }
    }
    find(&reading.graph, facts, Freedom::Nothing)
}

fn target(buffer_type: Option<BufferType>) -> CopyTarget {
    match buffer_type {
        None => CopyTarget::Unknown,
        Some(buffer_type) if buffer_type.belongs_to_cpu() => CopyTarget::Cpu,
        Some(_) => CopyTarget::Other,
    }
}

/// Returns `true` if the backend of the buffer that holds `place` would compute `node` without copying its sources.
fn runs_at(runtime: &'static Runtime, node: TensorRef<'_>, place: TensorRef<'_>) -> bool {
    let Some(there) = runtime.buffer_type_of(place) else { return true };
    let roots = node.sources().map(|source| source.view_source().unwrap_or(source));
    let mut types = roots.filter_map(|root| runtime.buffer_type_of(root));
    if there.belongs_to_cpu() { types.all(BufferType::belongs_to_cpu) } else { types.all(|it| it == there) }
}

/// Returns what is known of each tensor of a graph, by id.
fn known(runtime: &'static Runtime, reading: &ReadGraph<'_>) -> Vec<Known> {
    let operations = &runtime.operations;
    let is_norm = |source: TensorRef<'_>| operations.op(source.op()) == Op::RmsNorm;
    let known = |&tensor: &TensorRef<'_>| Known {
        writes: writes(runtime, tensor),
        memory: memory(runtime, tensor),
        has_slot: tensor.source(ORDERED_OUTPUT_SLOT).is_none(),
        fused: u8::from(operations.op(tensor.op()) == Op::Mul && tensor.sources().any(is_norm)),
    };
    reading.tensors.iter().map(known).collect()
}

fn memory(runtime: &'static Runtime, tensor: TensorRef<'_>) -> Storage {
    let start = tensor.data().addr() as Bytes;
    match runtime.buffer_type_of(tensor) {
        Some(buffer_type) => Storage::Buffer { start, cpu: buffer_type.belongs_to_cpu() },
        None if start > 0 => Storage::Context { start },
        None => Storage::Planned,
    }
}

/// Returns the peak of live bytes of a graph, of whose tensors `origin` returns those that were given.
fn peak_bytes(given: &GivenGraph<'_>, graph: &Graph, origin: impl Fn(TensorId) -> TensorId) -> Bytes {
    let (leafs, nodes) = (vec![0; graph.leafs().len()], vec![0; graph.nodes().len()]);
    let requests = Requests { leafs: &leafs, nodes: &nodes };
    let specs = [given.spec()];
    let mut sizes_of_given = given.sizes();
    let sizes: &mut dyn Sizes = &mut |id: TensorId, buffer: BufferIndex| sizes_of_given.alloc_size(origin(id), buffer);
    let mut found = live_ranges(graph, &specs, requests, sizes, &[], &mut Workspace::default());
    found.take_problems(&specs).iter().map(lower_bound).sum()
}

/// Makes the live graph the edited one.
fn change(runtime: &'static Runtime, reading: &ReadGraph<'_>, edited: &Edited) {
    let graph = &edited.graph;
    let origin = |(id, &origin): (TensorId, &TensorId)| {
        let op = graph.tensor(id).op;
        let is_removed = op != reading.graph.tensor(origin).op;
        let operation = is_removed.then(|| runtime.operations.number(op));
        LiveOrigin { tensor: reading.tensors[origin as usize], is_new: false, operation }
    };
    let origins = (0..).zip(&edited.origins).map(origin).collect();
    LiveEdit { runtime, graph, origins, name: &|_, _| String::new(), parameter: &|_| None }.change();
}
