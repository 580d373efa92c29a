//! Whose memory a node may take over.

use crate::graph::{Graph, Home, Operation, PoolId, Sizes, TensorId};
use crate::placement::Bytes;

use super::Turn;
use super::memory::Memory;
use super::start::Moment;

/// Memory that a node may take over.
#[derive(Clone, Copy)]
pub struct Donor {
    /// The source through which the node is computed in place.
    pub source: TensorId,
    /// The owner of the memory: the source, or what it is a view of.
    pub root: TensorId,
    /// Bytes that the node wants in the pool of that memory.
    pub alloc_size: Bytes,
    /// Would ggml take over something else, or nothing?
    pub beyond_ggml: bool,
}

/// A node that may write over a source.
pub struct Seeker<'a> {
    pub graph: &'a Graph,
    /// As in [`super::start::Ends`].
    pub ends: &'a [Moment],
    pub memory: &'a Memory,
    pub turn: Turn,
    pub operation: Operation,
    pub sources: &'a [TensorId],
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
    #[inline]
    pub fn donor(&self, size: &mut NodeSize<'_>) -> Option<Donor> {
        self.best_source(size).or_else(|| self.root_of_source(size))
    }

    /// The sources that nobody reads any more and that look like the node, with their slots.
    #[inline]
    fn candidates(&self) -> impl Iterator<Item = (usize, TensorId)> {
        let ends_now = |source: TensorId| self.ends[source as usize] == self.turn.moment;
        let is_right = move |source| ends_now(source) && self.graph.look_alike(source, self.turn.node);
        self.sources.iter().copied().enumerate().filter(move |&(_, source)| is_right(source))
    }

    /// Of the sources that are no views: the first that may be taken over, or a better one in the same pool, which is
    /// the one that ggml would choose.
    #[inline]
    fn best_source(&self, size: &mut NodeSize<'_>) -> Option<Donor> {
        let is_listed = self.operation.is_listed();
        let mut best: Option<Donor> = None;
        for (slot, source) in self.candidates() {
            if self.graph.tensor(source).view.is_some() {
                continue;
            }
            let Some(home) = self.memory.home(source) else { continue };
            // What ggml would not do must not move a node to another pool.
            if !is_listed && home.pool != self.turn.pool {
                continue;
            }
            let Some(alloc_size) = self.size_inside(slot, source, home, size) else { continue };
            let donor = Donor { source, root: source, alloc_size, beyond_ggml: best.is_some() || !is_listed };
            if best.is_none_or(|first| self.is_better(source, first.source)) {
                best = Some(donor);
            }
            if !self.memory.rules(home.pool).oldest_source {
                break;
            }
        }
        best
    }

    /// The root of the first source that is a view which may be taken over: nobody reads either after this node.
    fn root_of_source(&self, size: &mut NodeSize<'_>) -> Option<Donor> {
        for (slot, source) in self.candidates() {
            let Some(view) = self.graph.tensor(source).view else { continue };
            let Some(home) = self.memory.home(view.root) else { continue };
            let right = view.offset == 0
                && self.ends[view.root as usize] == self.turn.moment
                && home.pool == self.turn.pool
                && self.memory.rules(home.pool).views;
            if right && let Some(alloc_size) = self.size_inside(slot, view.root, home, size) {
                return Some(Donor { source, root: view.root, alloc_size, beyond_ggml: true });
            }
        }
        None
    }

    /// The size of the node in the memory of `root`, which has this home, if it may write over the source in this slot,
    /// which is there. No other source may be there, and there must be room.
    #[inline]
    fn size_inside(&self, slot: usize, root: TensorId, home: &Home, size: &mut NodeSize<'_>) -> Option<Bytes> {
        let is_there = |&&source: &&TensorId| self.graph.root(source) == root;
        let right = self.memory.rules(home.pool).allow(self.operation, slot)
            && self.sources.iter().filter(is_there).take(2).count() == 1;
        let alloc_size = right.then(|| size.in_pool(home.pool))?;
        self.memory.fits(alloc_size, home).then_some(alloc_size)
    }

    /// Is another source in the same pool better than the first? Backends may fuse a node with the one before it, and
    /// then the result must lie where that one's would. Otherwise the older block is better.
    #[cold]
    fn is_better(&self, other: TensorId, first: TensorId) -> bool {
        let may_be_fused = |source: TensorId| {
            let before = self.turn.step.checked_sub(1).map(|step| self.graph.nodes()[step as usize]);
            self.graph.tensor(source).operation.is_listed() && before == Some(source)
        };
        let homes = self.memory.home(other).zip(self.memory.home(first));
        homes.is_some_and(|(home, first_home)| {
            let is_older = || self.memory.birth(home) < self.memory.birth(first_home);
            home.pool == first_home.pool && !may_be_fused(first) && (may_be_fused(other) || is_older())
        })
    }
}
