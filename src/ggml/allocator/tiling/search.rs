//! The search for a graph that fits a budget, as far as the live graph has room for nodes; and its results, so that equal graphs
//! are tiled equally without another search.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ggml::extensions::tiling::nodes_needed;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::read::fingerprint::Fingerprint;
use crate::ggml::retention::RetainedAt;
use crate::graph::tiling::{Subject, TiledGraph, TilingLimits, tile};
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
    subject: &Subject,
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

/// Maximum number of remembered graphs; beyond it, the oldest are forgotten.
const MOST: usize = 16;

/// Maximum number of remembered graphs that fit, and of sizes of given graphs.
const MOST_NUMBERS: usize = 256;

/// A graph, and how it is tiled.
#[derive(Debug)]
pub struct KnownTiling {
    /// The graph as given.
    pub subject: Subject,
    /// The nodes that it has room for.
    pub capacity: usize,
    /// The result of the search.
    pub found: TiledGraph,
    /// Bytes that ggml-alloc needs for the given graph, by buffer, where they are reported.
    pub by_ggml: Option<Vec<Bytes>>,
}

/// A graph that stays as it is, with the tensors that it retains.
pub type Fitting = (Fingerprint, Vec<RetainedAt>);

/// The graphs that an allocator remembers.
#[derive(Debug, Default)]
pub struct KnownTilings {
    known: Vec<Arc<KnownTiling>>,
    fitting: Vec<Fitting>,
    /// By the address of the last node of a graph that was tiled, which is the last node of the given one.
    by_ggml: HashMap<usize, Vec<Bytes>>,
}

impl KnownTilings {
    /// Forgets all graphs.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns how a graph was tiled that is equal to this one.
    pub fn of(&self, subject: &Subject, capacity: usize) -> Option<Arc<KnownTiling>> {
        self.known.iter().rev().find(|known| known.capacity == capacity && known.subject == *subject).cloned()
    }

    /// Remembers how a graph is tiled.
    pub fn add(&mut self, known: KnownTiling) -> Arc<KnownTiling> {
        if self.known.len() == MOST {
            self.known.remove(0);
        }
        let known = Arc::new(known);
        self.known.push(Arc::clone(&known));
        known
    }

    /// Returns `true` if this very graph was found to stay as it is.
    pub fn is_fitting(&self, graph: &Fitting) -> bool {
        self.fitting.contains(graph)
    }

    /// Remembers that this very graph stays as it is.
    pub fn add_fitting(&mut self, graph: Fitting) {
        if self.fitting.len() == MOST_NUMBERS {
            self.fitting.remove(0);
        }
        self.fitting.push(graph);
    }

    /// Remembers what ggml-alloc needs for a graph that was tiled.
    pub fn set_by_ggml(&mut self, graph: GraphRef<'_>, bytes: Option<&[Bytes]>) {
        if self.by_ggml.len() == MOST_NUMBERS {
            self.by_ggml.clear();
        }
        if let (Some(last), Some(bytes)) = (graph.nodes.last(), bytes) {
            self.by_ggml.insert(last.address(), bytes.to_vec());
        }
    }

    /// Returns what ggml-alloc needs for the graph that a graph was made of, if it was tiled and that is known.
    pub fn by_ggml(&self, graph: GraphRef<'_>) -> Option<&[Bytes]> {
        self.by_ggml.get(&graph.nodes.last()?.address()).map(Vec::as_slice)
    }
}
