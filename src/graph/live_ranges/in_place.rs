//! The search for a source that a node is computed in place of.

use crate::graph::{BufferIndex, Graph, InPlace, Op, Sizes, TensorId};
use crate::placement::{Bytes, Step};

use super::Allocation;
use super::last_uses::{LastUses, Point};
use super::{Blocks, InPlaceSource};

/// Facts about a graph before any block is added.
pub struct Known<'a> {
    pub graph: &'a Graph,
    pub last_uses: &'a LastUses,
    /// The last uses by inactive nodes, see [`InactiveNodes::last_uses`](super::inactive::InactiveNodes::last_uses);
    /// empty with one buffer.
    pub used_by_inactive: &'a [(TensorId, Step)],
}

/// A source that the node may be computed in place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate<'a> {
    source: TensorId,
    /// The memory of the source.
    allocation: &'a Allocation,
    /// Bytes that the buffer type requires for the node.
    alloc_size: Bytes,
}

/// The source that is chosen among several, if any may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Best<'a> {
    candidate: Option<Candidate<'a>>,
    /// False if ggml would choose another one.
    is_ggmls: bool,
}

/// The sources whose last use is the node.
enum Ending {
    None,
    /// One, in this slot.
    One(usize, TensorId),
    Several,
}

/// The search for the in-place source of one node, whose operation may write over sources.
pub struct InPlaceSearch<'a, S: ?Sized> {
    pub known: &'a Known<'a>,
    pub blocks: &'a Blocks,
    pub node: TensorId,
    pub in_place: InPlace,
    pub sources: &'a [TensorId],
    /// The buffer requested for the node.
    pub buffer: BufferIndex,
    /// The point of the node's step.
    pub now: Point,
    pub sizes: &'a mut S,
    /// The buffer of the last size query for the node, and its result.
    pub known_size: Option<(BufferIndex, Bytes)>,
}

impl<'a, S: Sizes + ?Sized> InPlaceSearch<'a, S> {
    /// Returns the source to compute the node in place of; where there is none, the bytes of the node in its buffer.
    // Takes `self` by value, so that the fields get into memory only where the search is a longer one.
    #[inline]
    pub fn find(mut self) -> Result<InPlaceSource, Bytes> {
        match self.ending() {
            Ending::Several => self.best_of_several(),
            Ending::One(slot, source) if self.has_layout_of(source) => {
                self.checked(slot, source).map(|found| self.in_place_of(found)).ok_or_else(|| self.requested_size())
            }
            _ => Err(self.requested_size()),
        }
    }

    /// Returns which sources have their last use here.
    // Most nodes have one source or two, for which a loop would take longer.
    #[inline(always)]
    fn ending(&self) -> Ending {
        match *self.sources {
            [only] => {
                if self.ends_now(only) {
                    Ending::One(0, only)
                } else {
                    Ending::None
                }
            }
            [first, second] => match (self.ends_now(first), self.ends_now(second)) {
                (true, true) => Ending::Several,
                (true, false) => Ending::One(0, first),
                (false, true) => Ending::One(1, second),
                (false, false) => Ending::None,
            },
            _ => {
                let mut ending = (0..).zip(self.sources).filter(|&(_, &source)| self.ends_now(source));
                match (ending.next(), ending.next()) {
                    (Some((slot, &source)), None) => Ending::One(slot, source),
                    (Some(_), Some(_)) => Ending::Several,
                    _ => Ending::None,
                }
            }
        }
    }

    fn step(&self) -> Step {
        self.now.0 - self.known.last_uses.first.0
    }

    /// Returns the bytes of the node in the buffer requested for it.
    #[inline]
    fn requested_size(&mut self) -> Bytes {
        self.size_in(self.buffer)
    }

    /// Returns the bytes of the node in a buffer; queried once per buffer.
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

    /// Returns `true` if this step is the last use of the source.
    #[inline]
    fn ends_now(&self, source: TensorId) -> bool {
        self.known.last_uses.points[source as usize] == self.now
    }

    #[inline]
    fn has_layout_of(&self, source: TensorId) -> bool {
        self.known.graph.same_layout(source, self.node)
    }

    /// Chooses among several sources whose last use is here.
    #[inline(never)]
    fn best_of_several(mut self) -> Result<InPlaceSource, Bytes> {
        let best = match *self.sources {
            [first, second] => self.best_of_owners([first, second]),
            _ => None,
        };
        debug_assert!(best.is_none_or(|best| best == self.best_of_all()));
        let Best { candidate, is_ggmls } = best.unwrap_or_else(|| self.best_of_all());
        let Some(candidate) = candidate else { return Err(self.requested_size()) };
        let source = self.in_place_of(candidate);
        Ok(InPlaceSource { beyond_ggml: source.beyond_ggml || !is_ggmls, ..source })
    }

    /// Chooses between two sources as [`Self::best_of_all`] does, with fewer checks, where only those with their own
    /// blocks in the requested buffer qualify, as is nearly always the case. `None` otherwise.
    #[inline(always)]
    fn best_of_owners(&mut self, [first, second]: [TensorId; 2]) -> Option<Best<'a>> {
        let is_simple = self.known.used_by_inactive.is_empty() && self.known.graph.retention().is_empty();
        if !is_simple || first == second {
            return None;
        }
        let (one, other) = (self.owner(0, first, second)?, self.owner(1, second, first)?);
        let is_other = match (one, other) {
            (Some(one), Some(other)) => self.later_may_be_better(one) && self.is_better(other, one),
            _ => false,
        };
        let candidate = if is_other { other } else { one.or(other) };
        Some(Best { candidate, is_ggmls: !is_other })
    }

    /// Returns the source in this slot if it has its own block, which the node may write over, `Some(None)` if it does
    /// not qualify, and `None` if that takes more checks.
    #[inline(always)]
    fn owner(&mut self, slot: usize, source: TensorId, other: TensorId) -> Option<Option<Candidate<'a>>> {
        let has_layout = self.has_layout_of(source);
        let Some(allocation) = self.blocks.allocation(source) else {
            // A view, or external: a view can be a candidate, or keep its root from being one.
            return if has_layout || self.known.graph.root(source) == other { None } else { Some(None) };
        };
        if !has_layout {
            return Some(None);
        }
        if allocation.buffer != self.buffer {
            return None;
        }
        if !self.blocks.rules(self.buffer).allow(self.in_place, slot) {
            return Some(None);
        }
        let alloc_size = self.size_in(self.buffer);
        Some(self.blocks.fits(alloc_size, allocation).then_some(Candidate { source, allocation, alloc_size }))
    }

    /// Chooses among all sources. Those that ggml would not use come last: a node then moves to another buffer
    /// exactly when ggml would move it, so that no buffer grows beyond what ggml needs.
    #[inline(never)]
    fn best_of_all(&mut self) -> Best<'a> {
        let mut best: Option<Candidate> = None;
        let mut is_ggmls = true;
        for (slot, &source) in self.sources.iter().enumerate() {
            if !(self.ggml_may_use(source) && self.is_candidate(slot, source)) {
                continue;
            }
            let Some(candidate) = self.checked(slot, source) else { continue };
            match best {
                Some(first) if !self.is_better(candidate, first) => {}
                Some(_) => (best, is_ggmls) = (Some(candidate), false),
                None => best = Some(candidate),
            }
            if !self.later_may_be_better(candidate) {
                break;
            }
        }
        Best { candidate: best.or_else(|| self.first_beyond_ggml()), is_ggmls }
    }

    /// Returns `true` if the rules may prefer a source in a later slot to this one.
    #[inline(always)]
    fn later_may_be_better(&self, earlier: Candidate<'_>) -> bool {
        let rules = self.blocks.rules(earlier.allocation.buffer);
        rules.oldest_source || (rules.leafs_last && self.is_leaf(earlier.source))
    }

    /// Returns the first usable source among those that ggml would not use.
    #[cold]
    fn first_beyond_ggml(&mut self) -> Option<Candidate<'a>> {
        self.sources.iter().enumerate().find_map(|(slot, &source)| {
            let right = !self.ggml_may_use(source) && self.is_candidate(slot, source);
            if right { self.checked(slot, source) } else { None }
        })
    }

    /// Returns `true` unless ggml would not use this source, whose last use is here: views, and tensors that an
    /// inactive node uses later.
    #[inline(always)]
    fn ggml_may_use(&self, source: TensorId) -> bool {
        self.known.graph.tensor(source).view.is_none() && !self.is_used_later_by_inactive(source)
    }

    /// Returns `true` if this is the last use of the source in this slot, its layout is that of the node, and no other
    /// source is in its memory.
    #[inline(always)]
    fn is_candidate(&self, slot: usize, source: TensorId) -> bool {
        let root = |source: TensorId| self.known.graph.root(source);
        let is_elsewhere = |(other, &it): (usize, &TensorId)| other == slot || root(it) != root(source);
        self.ends_now(source) && self.has_layout_of(source) && self.sources.iter().enumerate().all(is_elsewhere)
    }

    /// Returns the source in this slot with its memory, if the node may take that and nothing uses it later.
    #[inline(always)]
    fn checked(&mut self, slot: usize, source: TensorId) -> Option<Candidate<'a>> {
        let graph = self.known.graph;
        let view = graph.tensor(source).view;
        let root = view.map_or(source, |view| view.root);
        let allocation = self.blocks.allocation(root)?;
        // Sharing that ggml does not do must not move a node to another buffer.
        let is_right = allocation.buffer == self.buffer || (self.in_place.is_listed() && self.ggml_may_use(source));
        let is_last = (view.is_none() || self.ends_now(root)) && !graph.is_retained_until(root, self.node);
        let rules = self.blocks.rules(allocation.buffer);
        if !(is_right && is_last && graph.may_take_memory(self.node, (slot, source), rules)) {
            return None;
        }
        let alloc_size = self.size_in(allocation.buffer);
        self.blocks.fits(alloc_size, allocation).then_some(Candidate { source, allocation, alloc_size })
    }

    #[inline(always)]
    fn in_place_of(&self, Candidate { source, allocation, alloc_size }: Candidate<'_>) -> InPlaceSource {
        let Allocation { buffer, block, alloc_size: held, .. } = *allocation;
        let beyond_ggml = !self.in_place.is_listed() || self.known.graph.tensor(source).view.is_some();
        InPlaceSource { source, buffer, block, held, alloc_size, beyond_ggml }
    }

    /// Returns `true` if an inactive node uses the source after this step. For ggml that is a use like any other.
    #[inline]
    fn is_used_later_by_inactive(&self, source: TensorId) -> bool {
        !self.known.used_by_inactive.is_empty() && self.is_among_used_later(source)
    }

    #[cold]
    fn is_among_used_later(&self, source: TensorId) -> bool {
        let found = self.known.used_by_inactive.binary_search_by_key(&source, |&(used, _)| used);
        found.is_ok_and(|at| self.known.used_by_inactive[at].1 > self.step())
    }

    fn is_leaf(&self, source: TensorId) -> bool {
        self.known.graph.tensor(source).op == Op::None
    }

    /// Returns `true` if another source is better than the first, which ggml would choose; never in another buffer.
    /// Backends may fuse a node with the one before it, whose memory the result must then have. Otherwise the older
    /// block is better. Where the rules do not want that, the result before is better than a leaf.
    fn is_better(&self, other: Candidate<'_>, first: Candidate<'_>) -> bool {
        let before = self.step().checked_sub(1).map(|step| self.known.graph.nodes()[step as usize]);
        let may_be_fused =
            |source: TensorId| before == Some(source) && self.known.graph.tensor(source).in_place.is_listed();
        let is_older = || self.blocks.first_step(other.allocation) < self.blocks.first_step(first.allocation);
        other.allocation.buffer == first.allocation.buffer
            && if self.blocks.rules(first.allocation.buffer).oldest_source {
                !may_be_fused(first.source) && (may_be_fused(other.source) || is_older())
            } else {
                self.is_leaf(first.source) && before == Some(other.source)
            }
    }
}
