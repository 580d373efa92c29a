//! Whose memory a node may take over.

use crate::graph::{Graph, Operation, PoolId, Sizes, TensorId};
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
    /// Whose memory to take over.
    #[inline]
    pub fn donor(&self, size: &mut NodeSize<'_>) -> Option<Donor> {
        let mut ending = self.ending();
        let (slot, source) = ending.next()?;
        if ending.next().is_none() { self.take(slot, source, size) } else { self.best(size) }
    }

    /// The sources that nobody reads any more, and their slots.
    #[inline]
    fn ending(&self) -> impl Iterator<Item = (usize, TensorId)> {
        let (ends, now) = (self.ends.moments.as_slice(), self.ends.first + self.step);
        let sources = self.graph.sources(self.node).iter().copied().enumerate();
        sources.filter(move |&(_, source)| ends[source as usize] == now)
    }

    /// Of several. Views come last: a node then moves to another pool exactly when ggml would move it, so that no pool
    /// grows beyond what ggml needs.
    #[inline(never)]
    fn best(&self, size: &mut NodeSize<'_>) -> Option<Donor> {
        let is_view = |source: TensorId| self.graph.tensor(source).view.is_some();
        let mut best: Option<Donor> = None;
        for (slot, source) in self.ending().filter(|&(_, source)| !is_view(source) && self.is_alone(source)) {
            let Some(donor) = self.take(slot, source, size) else { continue };
            best = match best {
                Some(first) if !self.is_better(source, first.source) => Some(first),
                Some(_) => Some(Donor { beyond_ggml: true, ..donor }),
                None => Some(donor),
            };
            if !self.goes_on(source) {
                break;
            }
        }
        let views = || self.ending().filter(|&(_, source)| is_view(source) && self.is_alone(self.graph.root(source)));
        best.or_else(|| views().find_map(|(slot, source)| self.take(slot, source, size)))
    }

    /// May a later source be better than this one?
    fn goes_on(&self, source: TensorId) -> bool {
        self.memory.home(source).is_some_and(|home| self.memory.rules(home.pool).oldest_source)
    }

    /// Is one source only in the memory of `root`?
    fn is_alone(&self, root: TensorId) -> bool {
        self.ending().filter(|&(_, source)| self.graph.root(source) == root).nth(1).is_none()
    }

    /// The memory that the source in this slot is in, if the node may write over it. No other source is there.
    #[inline]
    fn take(&self, slot: usize, source: TensorId, size: &mut NodeSize<'_>) -> Option<Donor> {
        if !self.graph.look_alike(source, self.node) {
            return None;
        }
        let view = self.graph.tensor(source).view;
        let root = view.map_or(source, |view| view.root);
        let home = self.memory.home(root)?;
        let rules = self.memory.rules(home.pool);
        let beyond_ggml = view.is_some() || !self.operation.is_listed();
        // What ggml would not do must not move a node to another pool.
        let is_right = !beyond_ggml || home.pool == self.pool;
        let may_be_view = view.is_none_or(|view| view.offset == 0 && rules.views && self.ends.is_at(root, self.step));
        if !(is_right && may_be_view && rules.allow(self.operation, slot)) {
            return None;
        }
        let alloc_size = size.in_pool(home.pool);
        self.memory.fits(alloc_size, home).then_some(Donor { source, root, alloc_size, beyond_ggml })
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
