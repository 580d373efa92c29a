//! Whose memory a node may take over.

use crate::graph::{Graph, Home, Operation, PoolId, Sizes, TensorId};
use crate::placement::{Bytes, Step};

use super::memory::Memory;
use super::start::Ends;

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
    pub ends: &'a Ends,
    pub memory: &'a Memory,
    pub node: TensorId,
    pub operation: Operation,
    /// The pool that is wanted for the node.
    pub pool: PoolId,
    pub step: Step,
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
        let sources = self.graph.sources(self.node);
        let mut best: Option<Donor> = None;
        let mut has_views = false;
        for (slot, &source) in sources.iter().enumerate() {
            if !self.is_candidate(source) {
                continue;
            }
            if self.graph.tensor(source).view.is_some() {
                has_views = true;
                continue;
            }
            let Some((home, donor)) = self.source(slot, source, sources, size) else { continue };
            best = match best {
                Some(first) if !self.is_better(source, first.source) => Some(first),
                Some(_) => Some(Donor { beyond_ggml: true, ..donor }),
                None => Some(donor),
            };
            if !self.memory.rules(home.pool).oldest_source {
                break;
            }
        }
        if best.is_none() && has_views { self.root_of_source(sources, size) } else { best }
    }

    /// Does nobody read the source any more, and does it look like the node?
    #[inline]
    fn is_candidate(&self, source: TensorId) -> bool {
        self.ends.is_at(source, self.step) && self.graph.look_alike(source, self.node)
    }

    /// A source that is no view, if it may be taken over.
    #[inline]
    fn source(
        &self,
        slot: usize,
        source: TensorId,
        sources: &[TensorId],
        size: &mut NodeSize<'_>,
    ) -> Option<(&Home, Donor)> {
        let home = self.memory.home(source)?;
        let is_listed = self.operation.is_listed();
        // What ggml would not do must not move a node to another pool.
        if !is_listed && home.pool != self.pool {
            return None;
        }
        let alloc_size = self.size_inside(slot, source, home, sources, size)?;
        Some((home, Donor { source, root: source, alloc_size, beyond_ggml: !is_listed }))
    }

    /// The root of the first source that is a view which may be taken over: nobody reads either after this node.
    #[inline(never)]
    fn root_of_source(&self, sources: &[TensorId], size: &mut NodeSize<'_>) -> Option<Donor> {
        for (slot, &source) in sources.iter().enumerate().filter(|&(_, &source)| self.is_candidate(source)) {
            let Some(view) = self.graph.tensor(source).view else { continue };
            let Some(home) = self.memory.home(view.root) else { continue };
            let right = view.offset == 0
                && self.ends.is_at(view.root, self.step)
                && home.pool == self.pool
                && self.memory.rules(home.pool).views;
            if right && let Some(alloc_size) = self.size_inside(slot, view.root, home, sources, size) {
                return Some(Donor { source, root: view.root, alloc_size, beyond_ggml: true });
            }
        }
        None
    }

    /// The size of the node in the memory of `root`, which has this home, if it may write over the source in this slot,
    /// which is there. No other source may be there, and there must be room.
    #[inline]
    fn size_inside(
        &self,
        slot: usize,
        root: TensorId,
        home: &Home,
        sources: &[TensorId],
        size: &mut NodeSize<'_>,
    ) -> Option<Bytes> {
        let is_alone = sources.iter().enumerate().all(|(other, &source)| other == slot || self.graph.root(source) != root);
        let right = is_alone && self.memory.rules(home.pool).allow(self.operation, slot);
        let alloc_size = right.then(|| size.in_pool(home.pool))?;
        self.memory.fits(alloc_size, home).then_some(alloc_size)
    }

    /// Is another source in the same pool better than the first, which is the one that ggml would choose? Backends may
    /// fuse a node with the one before it, and then the result must lie where that one's would. Otherwise the older
    /// block is better.
    #[cold]
    fn is_better(&self, other: TensorId, first: TensorId) -> bool {
        let before = self.step.checked_sub(1).map(|step| self.graph.nodes()[step as usize]);
        let may_be_fused =
            |source: TensorId| before == Some(source) && self.graph.tensor(source).operation.is_listed();
        let homes = self.memory.home(other).zip(self.memory.home(first));
        homes.is_some_and(|(home, first_home)| {
            let is_older = || self.memory.birth(home) < self.memory.birth(first_home);
            home.pool == first_home.pool && !may_be_fused(first) && (may_be_fused(other) || is_older())
        })
    }
}
