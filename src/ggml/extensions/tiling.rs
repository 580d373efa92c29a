//! Computes large intermediates of a live graph in tiles.

use std::ptr::NonNull;

use crate::graph::tiling::{
    Known, Origin, Role, TileKernels, TileKind, TileableGraph, TiledGraph, TilingLimits, Window, detached, tile,
};
use crate::graph::{Graph, TensorId};
use crate::placement::Bytes;

use crate::ggml::USAGE_WEIGHTS;
use crate::ggml::bindings::{ggml_cgraph, ggml_context};
use crate::ggml::extensions::apply::{LiveEdit, LiveOrigin};
use crate::ggml::extensions::pass::{Budgeted, GivenGraph, NotFitted, fit, same_memory};
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::live::tensor_mut::{mark_made_of_tiles, mark_replaced_by_tiles};
use crate::ggml::read::ReadGraph;

/// The goal of tiling a live graph.
#[derive(Clone, Copy, Debug)]
pub struct TilingRequest<'r, 'g> {
    /// The buffer type of the future compute buffer, if known.
    pub buffer_type: Option<BufferType>,
    /// The budget, the threads and the work limit.
    pub limits: TilingLimits,
    /// Tensors that must stay as they are.
    pub retained: &'r [TensorRef<'g>],
}

impl Budgeted for TiledGraph {
    const NEW_TENSORS: &'static str = "tiles";
    const HELPS: &'static str = "retain less, or ask for fewer threads";

    fn planned_bytes(&self) -> Bytes {
        self.after
    }

    fn room(&self) -> Option<(usize, usize)> {
        self.is_changed.then(|| (nodes_needed(self), tensors_needed(self)))
    }
}

/// Searches for what to compute in tiles, and changes the graph: its list of nodes, and the tensors whose tiles are
/// computed, which become views. New tensors are in `context`. Calls `note` with each tensor of the program that is
/// computed in tiles.
///
/// # Errors
/// [`NotFitted`]; then nothing has changed.
///
/// # Safety
/// `context` and `graph` are live, and no other thread uses them or the graph's tensors. No `GraphRef` of the graph
/// is used afterwards.
pub unsafe fn tile_graph(
    runtime: &'static Runtime,
    context: NonNull<ggml_context>,
    graph: NonNull<ggml_cgraph>,
    request: TilingRequest<'_, '_>,
    progress: &mut dyn FnMut(f64) -> bool,
    note: &mut dyn FnMut(TensorRef<'_>, u32),
) -> Result<TiledGraph, NotFitted<TiledGraph>> {
    let goal = (request.buffer_type, request.limits.budget);
    let search = |given: &GivenGraph<'_>| search(given, request, progress);
    let apply = |given: &GivenGraph<'_>, found: &TiledGraph| {
        let tensors = &given.reading.tensors;
        // SAFETY: there is room, which `fit` has checked; context and graph are live and used by no other thread.
        unsafe { rewrite(runtime, context, graph, found, tensors) };
        let mut is_listed = vec![false; tensors.len()];
        let given = found.draft.origins().filter(|origin| origin.role.is_given());
        given.for_each(|origin| is_listed[origin.tensor as usize] = true);
        let replaced = tensors.iter().zip(is_listed).filter(|(_, is_listed)| !is_listed);
        replaced.for_each(|(&tensor, _)| mark_replaced_by_tiles(tensor));
        found.tiled.iter().for_each(|tiled| note(tensors[tiled.tensor as usize], tiled.tiles));
    };
    // SAFETY: live, and used by no other thread: see "# Safety".
    unsafe { fit(runtime, (context, graph), goal, search, apply) }
}

fn search(
    given: &GivenGraph<'_>,
    request: TilingRequest<'_, '_>,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<TiledGraph, NotFitted<TiledGraph>> {
    let kernels = request.buffer_type.map_or(Some(TileKernels::Cpu), BufferType::tile_kernels);
    let mut subject = subject_of(given.runtime, &given.reading, kernels, request.buffer_type);
    subject.known.iter_mut().zip(given.kept(request.retained)?).for_each(|(known, is_given)| known.kept |= is_given);
    let (specs, mut sizes) = ([given.spec()], given.sizes());
    tile(&subject, &specs, given.requests(), &mut sizes, request.limits, progress).map_err(NotFitted::Graph)
}

/// Where IM2COL has the padding above its image among its parameters.
const PADDING_ABOVE: usize = 3;

/// Returns the new tensors that a context must have room for.
pub fn tensors_needed(found: &TiledGraph) -> usize {
    found.draft.origins().filter(|origin| !origin.role.is_given()).count()
}

/// Returns the nodes that a live graph must have room for, to be changed to the one that was found.
pub fn nodes_needed(found: &TiledGraph) -> usize {
    let graph = &found.draft.graph;
    let memories = found.draft.origins().filter(|origin| origin.role == Role::Memory).count();
    // While they are added, the destinations of the tiles are among the leafs; all tensors ever in the graph stays in
    // its hash set, which has room for twice the nodes.
    let listed = (found.nodes_before + graph.leafs().len() + tensors_needed(found)).div_ceil(2);
    graph.nodes().len().max(graph.leafs().len() + memories + 1).max(listed + 1)
}

/// Changes `graph` to the one that was found: its list of nodes, and the tensors whose tiles are computed, which become
/// views. New tensors are in `context`. `given` are the tensors of the graph by id. Returns those of the new one by id.
///
/// # Safety
/// `context` and `graph` are live, have the room that [`nodes_needed`] and [`tensors_needed`] state, and no other thread uses
/// them or the graph's tensors. No `GraphRef` of the graph is used afterwards.
pub unsafe fn rewrite<'g>(
    runtime: &'static Runtime,
    context: NonNull<ggml_context>,
    graph: NonNull<ggml_cgraph>,
    found: &TiledGraph,
    given: &[TensorRef<'g>],
) -> Vec<TensorRef<'g>> {
    let (draft, operations) = (&found.draft, &runtime.operations);
    let origin = |Origin { tensor, role, .. }: Origin| LiveOrigin {
        tensor: given[tensor as usize],
        is_new: !role.is_given(),
        operation: role.op().map(|op| operations.number(op)),
    };
    let name = |id: TensorId, given: &str| draft.name(id, given).unwrap_or_default();
    let parameter = |id: TensorId| match draft.known[id as usize] {
        Known { kind: TileKind::Im2col(Some(window)), origin: Origin { role: Role::Tile, .. }, .. } => {
            Some((PADDING_ABOVE, i32::try_from(window.padding).expect("it was an i32")))
        }
        _ => None,
    };
    let origins = draft.origins().map(origin).collect();
    let edit = LiveEdit { runtime, graph: &draft.graph, origins, name: &name, parameter: &parameter };
    // SAFETY: context and graph are live, have the room, and no other thread uses them: see "# Safety".
    let tensors = unsafe { edit.apply(context, graph) };
    let wholes = tensors.iter().zip(draft.origins()).filter(|(_, origin)| origin.role == Role::Whole);
    wholes.for_each(|(&tensor, _)| mark_made_of_tiles(tensor));
    tensors
}

/// Returns the facts about a graph that was read with all layouts, and whose tiles are computed by `kernels`, if there are any, in
/// buffers of this type, if it is known.
pub fn subject_of(
    runtime: &'static Runtime,
    reading: &ReadGraph<'_>,
    kernels: Option<TileKernels>,
    buffer_type: Option<BufferType>,
) -> TileableGraph {
    let ReadGraph { graph, tensors, .. } = reading;
    let device = buffer_type.filter(|_| kernels != Some(TileKernels::Cpu));
    let unsliced: Vec<bool> = tensors.iter().map(|&tensor| !may_be_sliced(runtime, tensor, device)).collect();
    // Kernels for weights in such memory are not known, nor are bits of their tiles.
    let reads_unsliced = |id: TensorId| graph.sources(id).iter().any(|&it| unsliced[graph.root(it) as usize]);
    let is_kept = |id: TensorId| kernels.is_none_or(|kernels| !kernels.copies_results() && reads_unsliced(id));
    let kinds: Vec<TileKind> = tensors.iter().map(|&tensor| kind(runtime, tensor)).collect();
    let known = (0..).zip(tensors).zip(same_memory(runtime, reading)).map(|((id, &tensor), same_memory)| Known {
        same_memory,
        kept: is_kept(id),
        unsliced: unsliced[id as usize],
        ..Known::of_given(id, kinds[id as usize], runtime.nbytes(tensor))
    });
    TileableGraph {
        graph: Graph::clone(graph),
        detached: detached(graph, &kinds),
        known: known.collect(),
        kernels: kernels.unwrap_or_default(),
    }
}

/// The slots of masks. They may be empty before those of the sinks.
const MASK_OF_SOFT_MAX: usize = 1;
const MASK_OF_FLASH_ATTENTION: usize = 3;

/// Returns `true` if a slot is empty before one that is not.
fn has_gap(tensor: TensorRef<'_>) -> bool {
    let slots = tensor.source_slots();
    let used = slots.iter().take_while(|slot| slot.is_some()).count();
    slots[used..].iter().any(Option::is_some)
}

/// Returns how a live tensor can be tiled, with what its parameters say.
fn kind(runtime: &Runtime, tensor: TensorRef<'_>) -> TileKind {
    let parameters = tensor.parameters();
    match runtime.operations.op(tensor.op()).tiles() {
        // A hint at the values of the first source, which other kernels use.
        TileKind::MatMul if parameters[1] != 0 => TileKind::Other,
        TileKind::SoftMax { .. } => TileKind::SoftMax {
            same_slopes: f32::from_bits(parameters[1].cast_unsigned()) == 0.0,
            has_mask: Some(tensor.source(MASK_OF_SOFT_MAX).is_some()),
        },
        TileKind::FlashAttention { .. } => {
            TileKind::FlashAttention { has_mask: Some(tensor.source(MASK_OF_FLASH_ATTENTION).is_some()) }
        }
        // The table identifies sources by their order, so only these operations may lack one before another.
        _ if has_gap(tensor) => TileKind::Other,
        TileKind::Im2col(_) => {
            let [_, stride, _, padding, _, dilation, is_2d] = [0, 1, 2, 3, 4, 5, 6].map(|at| i64::from(parameters[at]));
            let kernel = tensor.source(0).map_or(0, |kernel| kernel.ne()[1]);
            let window = Window { stride, padding, dilation, kernel };
            if is_2d != 0 && kernel > 0 { TileKind::Im2col(Some(window)) } else { TileKind::Other }
        }
        kind => kind,
    }
}

/// Returns `true` unless the tensor is in memory whose layout only its backend knows, such as that of repacked weights, or in that of
/// another device than the one that computes tiles, if that is not the CPU.
fn may_be_sliced(runtime: &'static Runtime, tensor: TensorRef<'_>, device: Option<BufferType>) -> bool {
    let Some(buffer) = tensor.buffer_ref() else { return true };
    match device {
        None => runtime.is_host(buffer),
        // Some backends transform weights in their ordinary memory.
        Some(own) => runtime.type_of(buffer) == Some(own) && runtime.usage(buffer) != USAGE_WEIGHTS,
    }
}
