//! The search for a graph that fits a budget, as far as the live graph has room for nodes; and its results, so that equal graphs
//! are changed equally without another search.

use crate::ggml::allocator::cache::{Entry, Served};
use crate::ggml::extensions::recompute::work_by_tensor;
use crate::ggml::read::Requested;
use crate::ggml::retention::RetainedAt;
use crate::graph::recompute::{RecomputeEffort, TrainingGraph, recompute};
use crate::graph::tiling::{TileKernels, TileableGraph, TilingLimits, tile};
use crate::graph::{BufferIndex, BufferSpec, Flags, NotChanged, Requests, Sizes, TensorId, Wishes, Workspace, plan};
use crate::placement::Bytes;

use super::change::Change;

/// How often the budget for which there is room is bisected.
const BISECTIONS: u32 = 8;

/// The bytes that a graph may need in one of its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The buffer. What others need does not count.
    pub buffer: BufferIndex,
    /// What computes tiles there; `None` if nothing does.
    pub kernels: Option<TileKernels>,
    /// What the scheduler's copies between backends take of the budgets.
    pub copies: Bytes,
    /// What any graph may need: large intermediates are computed in tiles to keep it.
    pub budget: Option<Bytes>,
    /// What a training graph may need: forward results are computed again to keep it.
    pub training: Option<Bytes>,
    /// What a tensor may need, which is all that the buffer type allocates at once.
    pub largest: Option<Bytes>,
}

impl Target {
    /// Returns the bytes that a change is to keep.
    pub fn bytes(&self, change: &Change) -> Option<Bytes> {
        match change {
            Change::Tiles(_) => self.budget,
            Change::Again(_) => self.training.or(self.budget),
        }
    }
}

/// A graph that was read, and the buffers that are planned for it.
pub struct Subject<'a> {
    /// The graph.
    pub graph: &'a TileableGraph,
    /// The buffers.
    pub buffers: &'a [BufferSpec],
    /// The buffer of each leaf and node.
    pub requests: Requests<'a>,
    /// The most nodes of the new graph.
    pub capacity: usize,
}

impl Subject<'_> {
    /// Returns a graph that meets the target; if there is none, or it needs more nodes than there is room for, the smallest graph
    /// that is found.
    ///
    /// # Errors
    /// [`NotChanged`].
    pub fn search(&self, target: Target, sizes: &mut dyn Sizes) -> Result<Change, NotChanged> {
        let sizes: &mut dyn Sizes = &mut |tensor: TensorId, buffer: BufferIndex| {
            if buffer == target.buffer { sizes.alloc_size(tensor, buffer) } else { 0 }
        };
        if let Some(bytes) = target.training
            && let Some(found) = self.recomputed(bytes, sizes)?
        {
            return Ok(found);
        }
        let budget = target.budget.unwrap_or(Bytes::MAX);
        let tiled = self.tiled(budget, sizes)?;
        let has_small_tensors = target.largest.is_none_or(|largest| tiled.largest(target.buffer, sizes) <= largest);
        if tiled.after() <= budget && has_small_tensors {
            return Ok(tiled);
        }
        if let Some(largest) = target.largest
            && let Some(found) = self.with_small_tensors(largest, sizes)?
        {
            return Ok(found);
        }
        let again = self.recomputed(budget, sizes)?;
        Ok(again.filter(|again| again.after() < tiled.after()).unwrap_or(tiled))
    }

    /// Returns the graph in which tensors that need more than `largest` are computed in tiles; `None` if there are none.
    fn with_small_tensors(&self, largest: Bytes, sizes: &mut dyn Sizes) -> Result<Option<Change>, NotChanged> {
        let large: &mut dyn Sizes = &mut |tensor: TensorId, buffer: BufferIndex| {
            Some(sizes.alloc_size(tensor, buffer)).filter(|size| *size > largest).unwrap_or(0)
        };
        let Change::Tiles(mut found) = self.tiled(largest, large)? else { return Ok(None) };
        if !found.is_changed {
            return Ok(None);
        }
        let workspace = &mut Workspace::default();
        let given = &self.graph.graph;
        found.before = plan(given, self.buffers, self.requests, sizes, Wishes::default(), workspace)?.bytes();
        let mut found = Change::Tiles(found);
        let after = found.plan(self.buffers, self.requests.leafs, sizes)?.bytes();
        if let Change::Tiles(found) = &mut found {
            found.after = after;
        }
        Ok(Some(found))
    }

    /// Returns the graph with large intermediates in tiles.
    fn tiled(&self, budget: Bytes, sizes: &mut dyn Sizes) -> Result<Change, NotChanged> {
        self.with_room(budget, &mut |budget| {
            let limits = TilingLimits::of(budget);
            tile(self.graph, self.buffers, self.requests, sizes, limits, &mut |_| true).map(Change::Tiles)
        })
    }

    /// Returns the graph in which forward results are computed again; `None` if it is not a training graph.
    fn recomputed(&self, budget: Bytes, sizes: &mut dyn Sizes) -> Result<Option<Change>, NotChanged> {
        let graph = &self.graph.graph;
        if !graph.tensors().iter().any(|tensor| tensor.flags.has(Flags::LOSS)) {
            return Ok(None);
        }
        let Self { buffers, requests, .. } = *self;
        let work = work_by_tensor(graph);
        let same_memory: Vec<TensorId> = self.graph.known.iter().map(|known| known.same_memory).collect();
        let kept: Vec<bool> = vec![false; graph.tensors().len()];
        let subject = TrainingGraph { graph, buffers, requests, same_memory: &same_memory, work: &work, kept: &kept };
        let found = self.with_room(budget, &mut |budget| {
            recompute(subject, sizes, budget, RecomputeEffort::default(), &mut |_| true).map(Change::Again)
        });
        match found {
            Err(NotChanged::NoLoss | NotChanged::NoBackward) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Returns what `find` finds for a budget, or for the smallest one for which the live graph has room.
    fn with_room(
        &self,
        budget: Bytes,
        find: &mut dyn FnMut(Bytes) -> Result<Change, NotChanged>,
    ) -> Result<Change, NotChanged> {
        let has_room = |found: &Change| !found.is_changed() || found.room().0 <= self.capacity;
        let found = find(budget)?;
        if has_room(&found) {
            return Ok(found);
        }
        // Larger budgets need fewer nodes.
        let (mut below, mut above) = (found.after().max(budget), found.before());
        let mut best = find(found.before())?;
        for _ in 0..BISECTIONS {
            let middle = below + above.saturating_sub(below) / 2;
            let found = find(middle)?;
            if has_room(&found) && found.after() < best.after() {
                above = found.after().min(middle);
                best = found;
            } else {
                below = middle;
            }
        }
        Ok(best)
    }
}

/// Memory that a graph takes for each tensor, about.
const BYTES_OF_TENSOR: usize = 256;

/// A graph, and how it is changed.
#[derive(Debug)]
pub struct KnownChange {
    /// The graph as given.
    pub subject: TileableGraph,
    /// The buffers of its leafs and nodes.
    pub requested: Requested,
    /// What it is to fit.
    pub target: Target,
    /// The tensors that it retains.
    pub retained: Vec<RetainedAt>,
    /// The nodes that it has room for.
    pub capacity: usize,
    /// The result of the search.
    pub found: Change,
    /// Whether a device does not compute what it adds.
    pub is_refused: bool,
    /// Bytes that ggml-alloc needs for the given graph, by buffer, where they are reported.
    pub by_ggml: Option<Vec<Bytes>>,
    /// The graphs that are equal to it and stay as they are.
    pub unchanged: Served,
}

impl Entry for KnownChange {
    fn bytes(&self) -> usize {
        (self.subject.graph.tensors().len() + self.found.len()) * BYTES_OF_TENSOR
    }
}
