//! Whose memory a node may take over.

use crate::graph::{Graph, Operation, PoolId, Sizes, TensorId};
use crate::placement::{Bytes, Step};

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

/// A node that may write over a source, and looks for one.
pub struct Seeker<'a> {
    pub graph: &'a Graph,
    /// By tensor, as in [`Ends`](super::start::Ends).
    pub ends: &'a [Moment],
    pub memory: &'a Memory,
    pub node: TensorId,
    pub operation: Operation,
    pub sources: &'a [TensorId],
    /// The pool that is wanted for the node.
    pub pool: PoolId,
    pub step: Step,
    /// The moment of the step.
    pub now: Moment,
    pub sizes: &'a mut dyn Sizes,
    /// The size of the node in the pool for which it was asked last.
    pub known_size: Option<(PoolId, Bytes)>,
}

impl Seeker<'_> {
    /// Whose memory to take over.
    #[inline]
    pub fn donor(&mut self) -> Option<Donor> {
        let mut ending = self.ending();
        let (slot, source) = ending.next()?;
        let is_only = ending.next().is_none();
        drop(ending);
        match is_only {
            true if self.looks_right(source) => self.donor_in(slot, source),
            true => None,
            false => self.best_donor(),
        }
    }

    /// Bytes that the node wants, which are asked for once a pool.
    #[inline]
    pub fn size_in(&mut self, pool: PoolId) -> Bytes {
        match self.known_size {
            Some((known, size)) if known == pool => size,
            _ => {
                let size = self.sizes.alloc_size(self.node, pool);
                self.known_size = Some((pool, size));
                size
            }
        }
    }

    /// The sources that nobody reads any more, and their slots.
    #[inline]
    fn ending(&self) -> impl Iterator<Item = (usize, TensorId)> + use<'_> {
        let (ends, now) = (self.ends, self.now);
        self.sources.iter().copied().enumerate().filter(move |&(_, source)| ends[source as usize] == now)
    }

    #[inline]
    fn looks_right(&self, source: TensorId) -> bool {
        self.graph.look_alike(source, self.node)
    }

    /// Of several. Views come last: a node then moves to another pool exactly when ggml would move it, so that no pool
    /// grows beyond what ggml needs.
    #[inline(never)]
    fn best_donor(&mut self) -> Option<Donor> {
        let (sources, mut views) = (self.sources, false);
        let mut best: Option<Donor> = None;
        for (slot, &source) in sources.iter().enumerate() {
            if !self.is_candidate(source) {
                continue;
            }
            if self.graph.tensor(source).view.is_some() {
                views = true;
                continue;
            }
            let Some(donor) = self.donor_in(slot, source) else { continue };
            best = match best {
                Some(first) if !self.is_better(source, first.source) => Some(first),
                Some(_) => Some(Donor { beyond_ggml: true, ..donor }),
                None => Some(donor),
            };
            if !self.goes_on(source) {
                break;
            }
        }
        if best.is_none() && views { self.first_view() } else { best }
    }

    /// The first of the views that will do.
    fn first_view(&mut self) -> Option<Donor> {
        let sources = self.sources;
        let is_view = |graph: &Graph, source: TensorId| graph.tensor(source).view.is_some();
        sources.iter().enumerate().find_map(|(slot, &source)| {
            let right = is_view(self.graph, source) && self.is_candidate(source);
            if right { self.donor_in(slot, source) } else { None }
        })
    }

    /// Does the source look like the node, while nobody reads it any more, nor is another source in its memory?
    fn is_candidate(&self, source: TensorId) -> bool {
        let root = self.graph.root(source);
        self.ends[source as usize] == self.now
            && self.looks_right(source)
            && self.ending().filter(|&(_, other)| self.graph.root(other) == root).nth(1).is_none()
    }

    /// May a later source be better than this one?
    fn goes_on(&self, source: TensorId) -> bool {
        self.memory.home(source).is_some_and(|home| self.memory.rules(home.pool).oldest_source)
    }

    /// The memory of the source in this slot, or of what it is a view of, if the node may write over it. It looks like the
    /// node, and no other source is there.
    #[inline(always)]
    fn donor_in(&mut self, slot: usize, source: TensorId) -> Option<Donor> {
        let view = self.graph.tensor(source).view;
        let root = view.map_or(source, |view| view.root);
        let home = self.memory.home(root)?;
        let rules = self.memory.rules(home.pool);
        let beyond_ggml = view.is_some() || !self.operation.is_listed();
        // What ggml would not do must not move a node to another pool.
        let is_right = !beyond_ggml || home.pool == self.pool;
        let may_be_view =
            view.is_none_or(|view| view.offset == 0 && rules.views && self.ends[root as usize] == self.now);
        if !(is_right && may_be_view && rules.allow(self.operation, slot)) {
            return None;
        }
        let alloc_size = self.size_in(home.pool);
        self.memory.fits(alloc_size, home).then_some(Donor { source, root, alloc_size, beyond_ggml })
    }

    /// Is another source in the same pool better than the first, which is the one that ggml would choose? Backends may
    /// fuse a node with the one before it, and then the result must lie where that one's would. Otherwise the older
    /// block is better.
    #[cold]
    fn is_better(&self, other: TensorId, first: TensorId) -> bool {
        let before = self.step.checked_sub(1).map(|step| self.graph.nodes()[step as usize]);
        let may_be_fused = |source: TensorId| before == Some(source) && self.graph.tensor(source).operation.is_listed();
        let homes = self.memory.home(other).zip(self.memory.home(first));
        homes.is_some_and(|(home, first_home)| {
            let is_older = || self.memory.birth(home) < self.memory.birth(first_home);
            home.pool == first_home.pool && !may_be_fused(first) && (may_be_fused(other) || is_older())
        })
    }
}
