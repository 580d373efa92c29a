//! Whose memory a node may take over.

use crate::graph::{Allocation, BufferIndex, Graph, Operation, Sizes, TensorId};
use crate::placement::{BlockId, Bytes, Step};

use super::memory::Memory;
use super::start::{Ends, Moment};

/// Memory that a node may take over.
#[derive(Clone, Copy)]
pub struct Donor {
    /// The source through which the node is computed in place.
    pub source: TensorId,
    /// The buffer of the memory: that of the source, or of what it is a view of.
    pub buffer: BufferIndex,
    /// The block in that buffer.
    pub block: BlockId,
    /// Bytes that the one who has the memory wants of it.
    pub held: Bytes,
    /// Bytes that the node wants of it.
    pub alloc_size: Bytes,
    /// Would ggml take over something else, or nothing?
    pub beyond_ggml: bool,
}

/// What is known of a graph before any tensor has memory.
pub struct Known<'a> {
    pub graph: &'a Graph,
    pub ends: &'a Ends,
    /// The last uses by inactive nodes, see [`Inactive::last_uses`](super::inactive::Inactive::last_uses); empty with one buffer.
    pub used_by_inactive: &'a [(TensorId, Step)],
}

/// A node that may write over a source, and looks for one.
pub struct Seeker<'a, S> {
    pub known: &'a Known<'a>,
    pub memory: &'a Memory,
    pub node: TensorId,
    pub operation: Operation,
    pub sources: &'a [TensorId],
    /// The buffer that is wanted for the node.
    pub buffer: BufferIndex,
    /// The moment of the step.
    pub now: Moment,
    pub sizes: &'a mut S,
    /// The size of the node in the buffer for which it was asked last.
    pub known_size: Option<(BufferIndex, Bytes)>,
}

impl<S: Sizes> Seeker<'_, S> {
    /// Whose memory to take over; where there is none to take over, the bytes that the node wants in its buffer.
    // What is searched with is given away, not lent: so it gets into memory only where the search is a longer one.
    #[inline]
    pub fn donor(mut self) -> Result<Donor, Bytes> {
        let mut ending = self.sources.iter().enumerate().filter(|&(_, &source)| self.ends_now(source));
        let (first, is_only) = (ending.next(), ending.next().is_none());
        match first {
            Some(_) if !is_only => self.best_donor(),
            Some((slot, &source)) if self.looks_right(source) => self.donor_in(slot, source).ok_or_else(|| self.own()),
            _ => Err(self.own()),
        }
    }

    fn step(&self) -> Step {
        self.now - self.known.ends.first
    }

    /// Bytes that the node wants in the buffer that is wanted for it.
    #[inline]
    fn own(&mut self) -> Bytes {
        self.size_in(self.buffer)
    }

    /// Bytes that the node wants, which are asked for once a buffer.
    #[inline]
    fn size_in(&mut self, buffer: BufferIndex) -> Bytes {
        match self.known_size {
            Some((known, size)) if known == buffer => size,
            _ => {
                let size = self.sizes.alloc_size(self.node, buffer);
                self.known_size = Some((buffer, size));
                size
            }
        }
    }

    /// Does nobody read the source any more?
    #[inline]
    fn ends_now(&self, source: TensorId) -> bool {
        self.known.ends.moments[source as usize] == self.now
    }

    #[inline]
    fn looks_right(&self, source: TensorId) -> bool {
        self.known.graph.look_alike(source, self.node)
    }

    /// Of several. Those that ggml would not take come last: a node then moves to another buffer exactly when ggml would move
    /// it, so that no buffer grows beyond what ggml needs.
    #[inline(never)]
    fn best_donor(mut self) -> Result<Donor, Bytes> {
        let mut has_others = false;
        let mut best: Option<Donor> = None;
        for (slot, &source) in self.sources.iter().enumerate() {
            if !self.is_candidate(slot, source) {
                continue;
            }
            if !self.may_be_taken_by_ggml(source) {
                has_others = true;
                continue;
            }
            let Some(donor) = self.donor_in(slot, source) else { continue };
            best = match best {
                Some(first) if !self.is_better(source, first.source) => Some(first),
                Some(_) => Some(Donor { beyond_ggml: true, ..donor }),
                None => Some(donor),
            };
            // May a later source be better?
            if !self.memory.rules(donor.buffer).oldest_source {
                break;
            }
        }
        if best.is_none() && has_others {
            best = self.first_beyond_ggml();
        }
        best.ok_or_else(|| self.own())
    }

    /// The first that will do of the sources that ggml would not take.
    #[cold]
    fn first_beyond_ggml(&mut self) -> Option<Donor> {
        self.sources.iter().enumerate().find_map(|(slot, &source)| {
            let right = !self.may_be_taken_by_ggml(source) && self.is_candidate(slot, source);
            if right { self.donor_in(slot, source) } else { None }
        })
    }

    /// Of the sources that end with this step, ggml takes no views, and none that an inactive node uses later.
    #[inline(always)]
    fn may_be_taken_by_ggml(&self, source: TensorId) -> bool {
        self.known.graph.tensor(source).view.is_none() && !self.is_used_later_by_inactive(source)
    }

    /// Does nobody read the source in this slot any more, does it look like the node, and is it alone in its memory?
    #[inline(always)]
    fn is_candidate(&self, slot: usize, source: TensorId) -> bool {
        self.ends_now(source) && self.looks_right(source) && self.is_alone(slot, source)
    }

    #[inline(always)]
    fn is_alone(&self, slot: usize, source: TensorId) -> bool {
        let root = self.known.graph.root(source);
        let is_elsewhere =
            |(other, &source): (usize, &TensorId)| other == slot || self.known.graph.root(source) != root;
        self.sources.iter().enumerate().all(is_elsewhere)
    }

    /// The memory of the source in this slot, or of what it is a view of, if the node may write over it. It looks like the
    /// node, and no other source is there.
    #[inline(always)]
    fn donor_in(&mut self, slot: usize, source: TensorId) -> Option<Donor> {
        let view = self.known.graph.tensor(source).view;
        let root = view.map_or(source, |view| view.root);
        let allocation = self.memory.allocation(root)?;
        let rules = self.memory.rules(allocation.buffer);
        let beyond_ggml = view.is_some() || !self.operation.is_listed();
        // What ggml would not do must not move a node to another buffer.
        let is_right = allocation.buffer == self.buffer || !(beyond_ggml || self.is_used_later_by_inactive(source));
        let may_be_view = view.is_none_or(|view| view.offset == 0 && rules.views && self.ends_now(root));
        if !(is_right && may_be_view && rules.allow(self.operation, slot)) {
            return None;
        }
        let Allocation { buffer, block, alloc_size: held, .. } = *allocation;
        let alloc_size = self.size_in(buffer);
        self.memory.fits(alloc_size, allocation).then_some(Donor {
            source,
            buffer,
            block,
            held,
            alloc_size,
            beyond_ggml,
        })
    }

    /// Does an inactive node use the source after this step? To ggml that is a reader as any other.
    #[inline]
    fn is_used_later_by_inactive(&self, source: TensorId) -> bool {
        !self.known.used_by_inactive.is_empty() && self.is_among_used_later(source)
    }

    #[cold]
    fn is_among_used_later(&self, source: TensorId) -> bool {
        let found = self.known.used_by_inactive.binary_search_by_key(&source, |&(used, _)| used);
        found.is_ok_and(|at| self.known.used_by_inactive[at].1 > self.step())
    }

    /// Is another source in the same buffer better than the first, which is the one that ggml would choose? Backends may
    /// fuse a node with the one before it, and then the result must lie where that one's would. Otherwise the older
    /// block is better.
    #[cold]
    fn is_better(&self, other: TensorId, first: TensorId) -> bool {
        let before = self.step().checked_sub(1).map(|step| self.known.graph.nodes()[step as usize]);
        let may_be_fused =
            |source: TensorId| before == Some(source) && self.known.graph.tensor(source).operation.is_listed();
        let allocations = self.memory.allocation(other).zip(self.memory.allocation(first));
        allocations.is_some_and(|(allocation, first_allocation)| {
            let is_older = || self.memory.first_step(allocation) < self.memory.first_step(first_allocation);
            allocation.buffer == first_allocation.buffer && !may_be_fused(first) && (may_be_fused(other) || is_older())
        })
    }
}
