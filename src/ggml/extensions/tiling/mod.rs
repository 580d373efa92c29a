//! Computes large intermediates of a live graph in tiles.
//!
//! - [`subject`]: the facts about a live graph that the pass uses
//! - [`rewriter`]: changes a live graph to the one that was found

pub mod rewriter;
pub mod subject;

use std::ptr::NonNull;

use crate::graph::tiling::{TiledGraph, TilingLimits, tile};
use crate::placement::Bytes;

use crate::ggml::bindings::{ggml_cgraph, ggml_context};
use crate::ggml::extensions::pass::{Budgeted, GivenGraph, NotFitted, fit};
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::live::tensor_mut::mark_replaced_by_tiles;
use rewriter::{nodes_needed, rewrite, tensors_needed};
use subject::LiveSubject;

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
    let mut known = LiveSubject::of(given.runtime, &given.reading);
    let kept = (0..).zip(given.kept(request.retained)?).filter(|(_, is_kept)| *is_kept);
    kept.for_each(|(id, _)| known.keep(id));
    let (specs, mut sizes) = ([given.spec()], given.sizes());
    tile(known.subject(), &specs, given.requests(), &mut sizes, request.limits, progress).map_err(NotFitted::Graph)
}
