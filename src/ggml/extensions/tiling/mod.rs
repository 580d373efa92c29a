//! Computes large intermediates of a live graph in tiles.
//!
//! - [`subject`]: the facts about a live graph that the pass uses
//! - [`rewriter`]: changes a live graph to the one that was found

pub mod rewriter;
pub mod subject;

use std::ptr::NonNull;

use crate::graph::Requests;
use crate::graph::tiling::{NotTiled, TiledGraph, TilingLimits, tile};
use crate::placement::Bytes;

use crate::ggml::bindings::{ggml_cgraph, ggml_context};
use crate::ggml::extensions::budget::{Budgeted, NotFitted, expect_room, ids, within};
use crate::ggml::extensions::compute_buffer::ComputeBuffer;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::marks::mark_replaced_by_tiles;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::process::settings::settings;
use crate::ggml::read::requested::Requested;
use crate::ggml::read::{ReadGraph, read};
use crate::ggml::retention::{LiveRetention, retained_by_any};
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
    type Refusal = NotTiled;
    const NEW_TENSORS: &'static str = "tiles";
    const HELPS: &'static str = "retain less, or ask for fewer threads";

    fn planned_bytes(&self) -> Bytes {
        self.after
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
/// `context` and `graph` are live, and no other thread uses them or the graph's tensors. No [`GraphRef`] of the graph
/// is used afterwards.
pub unsafe fn tile_graph(
    runtime: &'static Runtime,
    context: NonNull<ggml_context>,
    graph: NonNull<ggml_cgraph>,
    request: TilingRequest<'_, '_>,
    progress: &mut dyn FnMut(f64) -> bool,
    note: &mut dyn FnMut(TensorRef<'_>, u32),
) -> Result<TiledGraph, NotFitted<TiledGraph>> {
    // SAFETY: a live graph of this thread, as the caller guarantees.
    let live = unsafe { GraphRef::new(graph) };
    let types = ComputeBuffer::new(runtime, request.buffer_type).types();
    let reading = read(runtime, &types, live, &Requested::default());
    let found = within(search(runtime, &reading, live, request, progress)?, request.limits.budget)?;
    if !found.is_changed {
        return Ok(found);
    }
    // SAFETY: a live graph and context of this thread, as the caller guarantees.
    unsafe { expect_room(runtime, context, graph, nodes_needed(&found), tensors_needed(&found)) }?;
    // SAFETY: there is room, which was checked; context and graph are live and used by no other thread.
    unsafe { rewrite(runtime, context, graph, &found, &reading.tensors) };
    let mut is_listed = vec![false; reading.tensors.len()];
    let given = found.draft.origins().filter(|origin| origin.role.is_given());
    given.for_each(|origin| is_listed[origin.tensor as usize] = true);
    let replaced = reading.tensors.iter().zip(is_listed).filter(|(_, is_listed)| !is_listed);
    replaced.for_each(|(&tensor, _)| mark_replaced_by_tiles(tensor));
    for tiled in &found.tiled {
        note(reading.tensors[tiled.tensor as usize], tiled.tiles);
    }
    Ok(found)
}

fn search(
    runtime: &'static Runtime,
    reading: &ReadGraph<'_>,
    live: GraphRef<'_>,
    request: TilingRequest<'_, '_>,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<TiledGraph, NotFitted<TiledGraph>> {
    let mut known = LiveSubject::of(runtime, reading);
    let names = LiveRetention::of_names(settings().retain);
    let retained = (0..).zip(retained_by_any(&reading.tensors, &names)).filter(|(_, is_retained)| *is_retained);
    retained.for_each(|(id, _)| known.keep(id));
    ids(request.retained, &reading.tensors)?.into_iter().for_each(|id| known.keep(id));
    let (leafs, nodes) = (vec![0; live.leafs.len()], vec![0; live.nodes.len()]);
    let requests = Requests { leafs: &leafs, nodes: &nodes };
    let buffer = ComputeBuffer::new(runtime, request.buffer_type);
    let mut sizes = buffer.sizes(&reading.tensors);
    tile(known.subject(), &[buffer.spec()], requests, &mut sizes, request.limits, progress).map_err(NotFitted::Graph)
}
