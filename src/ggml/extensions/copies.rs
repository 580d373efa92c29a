//! Removes needless copies from a live graph.

use crate::graph::Effect;
use crate::graph::copies::{Becomes, CopyKind, CopyTarget, Facts, Found, Freedom, Storage, TensorChange, find};
use crate::graph::{Graph, Requests, Sizes, Strides, TensorId, Workspace, live_ranges};
use crate::placement::{Bytes, lower_bound};

use crate::ggml::extensions::compute_buffer::ComputeBuffer;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, MAX_SOURCES, TensorRef};
use crate::ggml::live::tensor_mut::TensorMut;
use crate::ggml::outputs::check::writes;
use crate::ggml::outputs::redirect::{ORDERED_OUTPUT_SLOT, OutputTarget, redirect_ordered};
use crate::ggml::process::settings::settings;
use crate::ggml::read::memory::same_memory;
use crate::ggml::read::requested::Requested;
use crate::ggml::read::{ReadGraph, read};
use crate::ggml::retention::LiveRetention;

/// Removes copies from `graph`: changes its tensors, not its lists. `buffer_type` is that of all memory which an
/// allocator will assign; without it, only copies whose removal does not depend on it are removed. The peak of live
/// bytes does not grow. Tensors whose names the settings retain stay as they are.
pub fn remove_copies(runtime: &'static Runtime, graph: GraphRef<'_>, buffer_type: Option<BufferType>) -> Found {
    let types: Vec<BufferType> = buffer_type.into_iter().collect();
    let mut reading = read(runtime, &types, graph, &Requested::default());
    LiveRetention::of_names(settings().retain).retain_in(&mut reading.graph, graph);
    let found = find_copies(runtime, &reading, buffer_type);
    found.changes.iter().for_each(|change| apply(runtime, &reading.tensors, change));
    found
}

fn find_copies(runtime: &'static Runtime, reading: &ReadGraph<'_>, buffer_type: Option<BufferType>) -> Found {
    let known = TensorFacts::of(runtime, reading);
    let buffer = ComputeBuffer::new(runtime, buffer_type);
    if !known.kinds.iter().any(|&kind| kind != CopyKind::Other) {
        return Found::default();
    }
    let aliases = same_memory(runtime, reading);
    let runs_at = |node: TensorId, place: TensorId| {
        let [node, place] = [node, place].map(|id| reading.tensors[id as usize]);
        runs_at(runtime, node, place)
    };
    let facts = Facts {
        effects: &known.effects,
        kinds: &known.kinds,
        writes: &known.writes,
        memory: &known.memory,
        same_memory: &aliases,
        has_slot: &known.has_slot,
        fused: &known.fused,
        target: target(buffer_type),
        alignment: buffer.alignment(),
        runs_at: &runs_at,
    };
    let peak = PeakBytes { reading, buffer };
    let mut before = None;
    for freedom in [Freedom::LiveRanges, Freedom::Owners] {
        let found = find(&reading.graph, facts, freedom);
        let changes_owners = |change: &TensorChange| {
            change.becomes != Becomes::Same
                && known.memory[reading.graph.root(change.tensor) as usize] == Storage::Planned
        };
        if !found.changes.iter().any(changes_owners) {
            return found;
        }
        let old_peak = *before.get_or_insert_with(|| peak.of(&reading.graph));
        if peak.of(&found.applied_to(&reading.graph)) <= old_peak {
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

/// Facts about each tensor of a graph by itself, by id.
struct TensorFacts {
    effects: Vec<Effect>,
    kinds: Vec<CopyKind>,
    writes: Vec<Strides>,
    memory: Vec<Storage>,
    has_slot: Vec<bool>,
    fused: Vec<u8>,
}

impl TensorFacts {
    fn of(runtime: &'static Runtime, reading: &ReadGraph<'_>) -> Self {
        let (tensors, operations) = (&reading.tensors, &runtime.operations);
        let is_norm = |source: TensorRef<'_>| operations.is_named(source.op(), c"RMS_NORM");
        let is_fused =
            |tensor: TensorRef<'_>| operations.is_named(tensor.op(), c"MUL") && tensor.sources().any(is_norm);
        Self {
            effects: tensors.iter().map(|tensor| operations.effect(tensor.op())).collect(),
            kinds: tensors.iter().map(|tensor| operations.copies(tensor.op())).collect(),
            writes: tensors.iter().map(|&tensor| writes(runtime, tensor)).collect(),
            memory: tensors.iter().map(|&tensor| memory(runtime, tensor)).collect(),
            has_slot: tensors.iter().map(|tensor| tensor.source(ORDERED_OUTPUT_SLOT).is_none()).collect(),
            fused: tensors.iter().map(|&tensor| u8::from(is_fused(tensor))).collect(),
        }
    }
}

fn memory(runtime: &'static Runtime, tensor: TensorRef<'_>) -> Storage {
    let start = tensor.data().addr() as Bytes;
    match runtime.buffer_type_of(tensor) {
        Some(buffer_type) => Storage::Buffer { start, cpu: buffer_type.belongs_to_cpu() },
        None if start > 0 => Storage::Context { start },
        None => Storage::Planned,
    }
}

/// Computes the peak of live bytes.
struct PeakBytes<'a> {
    reading: &'a ReadGraph<'a>,
    buffer: ComputeBuffer,
}

impl PeakBytes<'_> {
    fn of(&self, graph: &Graph) -> Bytes {
        let (leafs, nodes) = (vec![0; graph.leafs().len()], vec![0; graph.nodes().len()]);
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        let spec = self.buffer.spec();
        let sizes: &mut dyn Sizes = &mut self.buffer.sizes(&self.reading.tensors);
        let mut found = live_ranges(graph, &[spec], requests, sizes, &[], &mut Workspace::default());
        found.take_problems(&[spec]).iter().map(lower_bound).sum()
    }
}

fn apply(runtime: &Runtime, tensors: &[TensorRef<'_>], change: &TensorChange) {
    let tensor = tensors[change.tensor as usize];
    let nb = change.nb.map(|stride| usize::try_from(stride).unwrap_or(usize::MAX));
    match change.becomes {
        Becomes::Same => {}
        Becomes::View => {
            set_operation(tensor, runtime.operations.reshape());
            // A cast has itself as a source.
            clear_sources(tensor, |source| source == tensor);
        }
        Becomes::Placeholder => {
            set_operation(tensor, runtime.operations.none());
            clear_sources(tensor, |_| true);
        }
    }
    // SAFETY: no reference into the tensor is held here.
    unsafe { TensorMut::new(tensor) }.set_strides(nb);
    if let Some(view) = change.view {
        let root = tensors[view.root as usize];
        let target = OutputTarget { root, offset: usize::try_from(view.offset).unwrap_or(usize::MAX), nb };
        redirect_ordered(tensor, target, change.destination.map(|wanted| tensors[wanted as usize]));
    }
    if change.is_output {
        // SAFETY: a live tensor, which no other thread uses.
        unsafe { (runtime.functions.ggml_set_output)(tensor.as_ptr()) };
    }
}

fn set_operation(tensor: TensorRef<'_>, op: u32) {
    // SAFETY: no reference into the tensor is held here, nor in `apply`.
    unsafe { TensorMut::new(tensor) }.set_operation(op);
}

fn clear_sources(tensor: TensorRef<'_>, is_removed: impl Fn(TensorRef<'_>) -> bool) {
    for slot in (0..MAX_SOURCES).filter(|&slot| tensor.source(slot).is_some_and(&is_removed)) {
        // SAFETY: no reference into the tensor is held: `is_removed` has returned.
        unsafe { TensorMut::new(tensor) }.clear_source(slot);
    }
}
