//! Whose memory a node may take over.

use crate::graph::{Graph, Home, Operation, PoolId, Sizes, TensorId};
use crate::placement::{Bytes, Step};

use super::memory::Memory;
use super::state::{Marks, State};

/// Memory that a node may take over.
#[derive(Clone, Copy)]
pub struct Donor {
    /// The source through which the node is computed in place.
    pub source: TensorId,
    /// The owner of the memory: the source, or what it is a view of.
    pub root: TensorId,
    /// Bytes that the node wants in the pool of that memory.
    pub alloc_size: Bytes,
}

/// A node that gets memory at `step`: in `pool`, unless it is computed in place.
pub struct Seeker<'a> {
    pub graph: &'a Graph,
    pub states: &'a [State],
    pub memory: &'a Memory,
    pub node: TensorId,
    pub operation: Operation,
    pub sources: &'a [TensorId],
    pub pool: PoolId,
    pub step: Step,
    pub size: NodeSize<'a>,
    /// Was a donor found that ggml would not take over?
    pub beyond_ggml: bool,
}

/// The size of a node, which is asked for once a pool.
pub struct NodeSize<'a> {
    pub sizes: &'a mut dyn Sizes,
    pub node: TensorId,
    /// The pool that was asked last.
    pub known: Option<(PoolId, Bytes)>,
}

impl NodeSize<'_> {
    pub fn in_pool(&mut self, pool: PoolId) -> Bytes {
        match self.known {
            Some((known, size)) if known == pool => size,
            _ => {
                let size = self.sizes.alloc_size(self.node, pool);
                self.known = Some((pool, size));
                size
            }
        }
    }
}

impl Seeker<'_> {
    /// Whose memory to take over. Views come last: a node then moves to another pool exactly when ggml would move it,
    /// so that no pool grows beyond what ggml needs.
    pub fn donor(&mut self) -> Option<Donor> {
        self.best_source().or_else(|| self.root_of_source())
    }

    /// Of the sources that are no views: the first that may be taken over, or a better one in the same pool, which is
    /// the one that ggml would choose.
    fn best_source(&mut self) -> Option<Donor> {
        let is_listed = self.operation.is_listed();
        let mut best: Option<Donor> = None;
        for (slot, &source) in self.sources.iter().enumerate() {
            let state = &self.states[source as usize];
            if state.is_read_after(self.step) || state.views > 0 || !state.may_end(self.step) {
                continue;
            }
            let Some(home) = self.memory.home(source) else { continue };
            // What ggml would not do must not move a node to another pool.
            if !is_listed && home.pool != self.pool {
                continue;
            }
            let Some(alloc_size) = self.size_inside(slot, home) else { continue };
            let donor = Donor { source, root: source, alloc_size };
            match best {
                None => (best, self.beyond_ggml) = (Some(donor), !is_listed),
                Some(first) if self.is_better(source, first.source) => {
                    (best, self.beyond_ggml) = (Some(donor), true);
                }
                Some(_) => {}
            }
            if !self.memory.rules(home.pool).oldest_source {
                break;
            }
        }
        best
    }

    /// The root of the first source that is a view which may be taken over: nobody reads either after this node.
    #[inline(never)]
    fn root_of_source(&mut self) -> Option<Donor> {
        for (slot, &source) in self.sources.iter().enumerate() {
            let state = &self.states[source as usize];
            if state.is_read_after(self.step) || !state.marks.has(Marks::COUNTED) || state.computed > self.step {
                continue;
            }
            let Some(view) = self.graph.tensor(source).view else { continue };
            let root = &self.states[view.root as usize];
            let Some(home) = self.memory.home(view.root) else { continue };
            let right = view.offset == 0
                && root.read_until <= self.step
                && root.views == 1
                && root.may_end(self.step)
                && home.pool == self.pool
                && self.memory.rules(home.pool).views;
            if right && let Some(alloc_size) = self.size_inside(slot, home) {
                self.beyond_ggml = true;
                return Some(Donor { source, root: view.root, alloc_size });
            }
        }
        None
    }

    /// The size of the node in the memory with this home, if it may write over the source in this slot, which is there.
    /// They must look the same, the source must be in no other slot, and there must be room.
    fn size_inside(&mut self, slot: usize, home: &Home) -> Option<Bytes> {
        let source = self.sources[slot];
        let right = self.memory.rules(home.pool).allow(self.operation, slot)
            && self.graph.look_alike(source, self.node)
            && self.sources.iter().filter(|&&other| other == source).take(2).count() == 1;
        let alloc_size = right.then(|| self.size.in_pool(home.pool))?;
        self.memory.fits(alloc_size, home).then_some(alloc_size)
    }

    /// Is another source in the same pool better than the first? Backends may fuse a node with the one before it, and
    /// then the result must lie where that one's would. Otherwise the older block is better.
    #[cold]
    fn is_better(&self, other: TensorId, first: TensorId) -> bool {
        let may_be_fused = |source: TensorId| {
            let operation = self.graph.tensor(source).operation;
            operation.is_listed() && self.states[source as usize].computed + 1 == self.step
        };
        let homes = self.memory.home(other).zip(self.memory.home(first));
        homes.is_some_and(|(home, first_home)| {
            let is_older = || self.memory.birth(home) < self.memory.birth(first_home);
            home.pool == first_home.pool && !may_be_fused(first) && (may_be_fused(other) || is_older())
        })
    }
}
