//! Changes a live graph to one whose large intermediates are computed in tiles.

use std::ptr::NonNull;

use crate::graph::TensorId;
use crate::graph::tiling::{Known, Origin, Role, TileKind, TiledGraph};

use crate::ggml::bindings::{ggml_cgraph, ggml_context};
use crate::ggml::extensions::apply::{LiveEdit, LiveOrigin};
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::live::tensor_mut::mark_made_of_tiles;

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
/// views. New tensors are in `context`. `given` are the tensors of the graph by id.
///
/// # Safety
/// `context` and `graph` are live, have the room that [`nodes_needed`] and [`tensors_needed`] state, and no other thread uses
/// them or the graph's tensors. No `GraphRef` of the graph is used afterwards.
pub unsafe fn rewrite(
    runtime: &'static Runtime,
    context: NonNull<ggml_context>,
    graph: NonNull<ggml_cgraph>,
    found: &TiledGraph,
    given: &[TensorRef<'_>],
) {
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
}
