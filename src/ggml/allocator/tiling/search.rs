//! The search for a graph that fits a budget, as far as the live graph has room for nodes; and its results, so that equal graphs
//! are tiled equally without another search.

use crate::ggml::allocator::cache::{Entry, Served};
use crate::ggml::extensions::tiling::nodes_needed;
use crate::ggml::retention::RetainedAt;
use crate::graph::tiling::{TileableGraph, TiledGraph, TilingLimits, tile};
use crate::graph::{BufferSpec, NotChanged, Requests, Sizes};
use crate::placement::Bytes;

/// How often the budget for which there is room is bisected.
const BISECTIONS: u32 = 8;

/// Returns a graph that fits the budget; if there is none, or it needs more than `capacity` nodes, the smallest graph that
/// is found.
///
/// # Errors
/// [`NotChanged`].
pub fn search(
    subject: &TileableGraph,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut dyn Sizes,
    (budget, capacity): (Bytes, usize),
) -> Result<TiledGraph, NotChanged> {
    let mut tiled = |budget| tile(subject, buffers, requests, sizes, TilingLimits::of(budget), &mut |_| true);
    let has_room = |found: &TiledGraph| !found.is_changed || nodes_needed(found) <= capacity;
    let found = tiled(budget)?;
    if has_room(&found) {
        return Ok(found);
    }
    // Larger budgets need fewer nodes.
    let (mut below, mut above) = (found.after.max(budget), found.before);
    let mut best = tiled(found.before)?;
    for _ in 0..BISECTIONS {
        let middle = below + above.saturating_sub(below) / 2;
        let found = tiled(middle)?;
        if has_room(&found) && found.after < best.after {
            above = found.after.min(middle);
            best = found;
        } else {
            below = middle;
        }
    }
    Ok(best)
}

/// Memory that a graph takes for each tensor, about.
const BYTES_OF_TENSOR: usize = 256;

/// A graph, and how it is tiled.
#[derive(Debug)]
pub struct KnownTiling {
    /// The graph as given.
    pub subject: TileableGraph,
    /// The tensors that it retains.
    pub retained: Vec<RetainedAt>,
    /// The nodes that it has room for.
    pub capacity: usize,
    /// The result of the search.
    pub found: TiledGraph,
    /// Bytes that ggml-alloc needs for the given graph, by buffer, where they are reported.
    pub by_ggml: Option<Vec<Bytes>>,
    /// The graphs that are equal to it and stay as they are.
    pub unchanged: Served,
}

impl Entry for KnownTiling {
    fn bytes(&self) -> usize {
        let graphs = [&self.subject.graph, &self.found.draft.graph];
        graphs.iter().map(|graph| graph.tensors().len() * BYTES_OF_TENSOR).sum()
    }
}
