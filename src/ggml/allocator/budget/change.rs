//! What a graph becomes to fit a budget: one with large intermediates in tiles, or one that computes forward results again.

use std::ptr::NonNull;

use crate::ggml::bindings::{ggml_cgraph, ggml_context};
use crate::ggml::extensions::pass::Budgeted;
use crate::ggml::extensions::{recompute, tiling};
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::graph::recompute::Recomputation;
use crate::graph::tiling::TiledGraph;
use crate::graph::{BufferIndex, BufferSpec, GraphPlan, PlanError, Requests, Sizes, TensorId, Wishes, Workspace, plan};
use crate::placement::Bytes;

/// The graph that was found for another one.
#[derive(Debug)]
pub enum Change {
    /// With large intermediates in tiles.
    Tiles(TiledGraph),
    /// With forward results that are computed again in the backward pass.
    Again(Recomputation),
}

impl Change {
    /// Returns the bytes of the plan of the given graph.
    pub fn before(&self) -> Bytes {
        match self {
            Self::Tiles(found) => found.before,
            Self::Again(found) => found.before.bytes,
        }
    }

    /// Returns the bytes of the plan of the new graph.
    pub fn after(&self) -> Bytes {
        match self {
            Self::Tiles(found) => found.after,
            Self::Again(found) => found.after.bytes,
        }
    }

    /// Returns `true` if it is not the given graph.
    pub fn is_changed(&self) -> bool {
        match self {
            Self::Tiles(found) => found.is_changed,
            Self::Again(found) => (0..).zip(&found.items).any(|(step, item)| item.again || item.step != step),
        }
    }

    /// Returns the nodes that the live graph, and the tensors that a context must have room for.
    pub fn room(&self) -> (usize, usize) {
        match self {
            Self::Tiles(found) => found.room().unwrap_or_default(),
            Self::Again(found) => found.room().unwrap_or_default(),
        }
    }

    /// Returns the number of tensors of the new graph.
    pub fn len(&self) -> usize {
        match self {
            Self::Tiles(found) => found.draft.graph.tensors().len(),
            Self::Again(found) => found.edited.graph.tensors().len(),
        }
    }

    /// Says what is computed otherwise, in a few words; `None` if no node is.
    pub fn text(&self) -> Option<String> {
        let (count, what) = match self {
            Self::Tiles(found) => (found.tiled.len(), "intermediates are computed in tiles"),
            Self::Again(found) => (found.again().count(), "nodes are computed again in the backward pass"),
        };
        (count > 0).then(|| format!("{count} {what}"))
    }

    /// Returns the bytes of the largest tensor of the new graph that owns its memory; `sizes` are those of the given one.
    pub fn largest(&self, buffer: BufferIndex, sizes: &mut dyn Sizes) -> Bytes {
        let graph = match self {
            Self::Tiles(found) => &found.draft.graph,
            Self::Again(found) => &found.edited.graph,
        };
        let owners = graph.nodes().iter().filter(|node| graph.tensor(**node).is_owned());
        let size = |&node: &TensorId| match self {
            Self::Tiles(found) => found.draft.alloc_size(sizes, node, buffer),
            Self::Again(found) => sizes.alloc_size(found.edited.origins[node as usize], buffer),
        };
        owners.map(size).max().unwrap_or(0)
    }

    /// Plans the new graph; `sizes` are those of the given one, whose leafs are requested in `leafs`.
    ///
    /// # Errors
    /// [`PlanError::TooLarge`] when sizes overflow.
    pub fn plan(
        &self,
        buffers: &[BufferSpec],
        leafs: &[BufferIndex],
        sizes: &mut dyn Sizes,
    ) -> Result<GraphPlan, PlanError> {
        let workspace = &mut Workspace::default();
        match self {
            Self::Tiles(TiledGraph { draft, .. }) => {
                let own: &mut dyn Sizes =
                    &mut |tensor: TensorId, buffer: BufferIndex| draft.alloc_size(sizes, tensor, buffer);
                plan(&draft.graph, buffers, draft.requests(), own, Wishes::default(), workspace)
            }
            Self::Again(Recomputation { edited, node_buffers, .. }) => {
                let own: &mut dyn Sizes = &mut |tensor: TensorId, buffer: BufferIndex| {
                    sizes.alloc_size(edited.origins[tensor as usize], buffer)
                };
                let requests = Requests { leafs, nodes: node_buffers };
                plan(&edited.graph, buffers, requests, own, Wishes::default(), workspace)
            }
        }
    }

    /// Changes the live graph, whose tensors by id are `given`, and puts new tensors into `context`. Calls `note` with each tensor of
    /// the new graph, and the given tensor that it comes from.
    ///
    /// # Safety
    /// `context` and `graph` are live and have the [`room`](Self::room), and no other thread uses them or the graph's tensors. No
    /// `GraphRef` of the graph is used afterwards.
    pub unsafe fn apply<'g>(
        &self,
        runtime: &'static Runtime,
        context: NonNull<ggml_context>,
        graph: NonNull<ggml_cgraph>,
        given: &[TensorRef<'g>],
        mut note: impl FnMut(TensorRef<'g>, TensorRef<'g>),
    ) {
        match self {
            Self::Tiles(found) => {
                // SAFETY: live, with the room, and used by no other thread: see "# Safety".
                let tensors = unsafe { tiling::rewrite(runtime, context, graph, found, given) };
                let origins = found.draft.origins().map(|origin| given[origin.tensor as usize]);
                tensors.into_iter().zip(origins).for_each(|(tensor, origin)| note(tensor, origin));
            }
            Self::Again(found) => {
                // SAFETY: as above.
                let tensors = unsafe { recompute::rewrite(runtime, context, graph, found, given) };
                let origins = found.edited.origins.iter().map(|&origin| given[origin as usize]);
                tensors.into_iter().zip(origins).for_each(|(tensor, origin)| note(tensor, origin));
            }
        }
    }
}
