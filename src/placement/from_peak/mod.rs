//! Starts at a peak of the memory profile and places blocks from there, forward and backward in time.
//!
//! ```text
//!  offset    peak            The blocks live at the peak form a pile: those that end last lie at the bottom, those
//!    ^        :              that started first at the top. So memory becomes free in one piece in both directions.
//!    |  +-----:----+
//!    |  |     :  c |         Forward, a block that starts goes into a gap, beside the neighbour that ends soonest
//!    |  +-+--++-+--+         after it, since blocks that end together leave one gap. Here e lies on a, which ends
//!    |    |d ||b|            after it, not below c, which ends before it.
//!    |    +--+| +----+
//!    |        | |  e |       Backward, time is reversed: a block starts at its last step and ends at its first. So
//!    |        +-+----+--+    d lies below c. The two directions share the pile and nothing else.
//!    |        |    a    |
//!    +--------+---------+-> step
//! ```
//!
//! Takes linear time where gaps are few, as they are in graphs. But no block makes room for later ones, so a placement
//! is either at the lower bound or far above it.

mod gaps;
#[cfg(test)]
mod tests;

use super::timeline::Timeline;
use super::{Block, BlockId, Bytes, Location, Placement, Problem, Step, Strategy};
use gaps::{Gaps, Time};

/// Places blocks from one of these peaks of the memory profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromPeak {
    /// The last step with at least 98 % of the largest live bytes.
    Last,
    /// The last step with at least 95 % of the largest live bytes.
    LastHigh,
    /// The first step with the largest live bytes.
    First,
    /// The last of the highest steps after [`FromPeak::Last`]: for equal layers that end in a larger one.
    AfterLast,
}

impl FromPeak {
    /// All peaks; those that most often lead to the lower bound on real graphs come first.
    pub const ALL: [Self; 4] = [Self::Last, Self::First, Self::AfterLast, Self::LastHigh];

    /// Returns the first placement of at most `limit` bytes in one chunk, and its peak. `workspace` has the timeline of
    /// `problem`.
    pub fn any_within(workspace: &mut Workspace, problem: &Problem, limit: Bytes) -> Option<(Self, Placement)> {
        workspace.gaps.reset(problem.blocks().len());
        Self::ALL.into_iter().find_map(|peak| Some((peak, peak.place_in(workspace, problem, limit)?)))
    }

    /// Returns a placement of at most `limit` bytes in one chunk, or `None` as soon as a block does not fit.
    pub fn place_within(self, problem: &Problem, limit: Bytes) -> Option<Placement> {
        let mut workspace = Workspace { timeline: Timeline::of(problem), ..Workspace::default() };
        workspace.gaps.reset(problem.blocks().len());
        self.place_in(&mut workspace, problem, limit)
    }

    /// Places all blocks within `limit` bytes. `workspace` has their timeline, and gaps that were reset for them.
    fn place_in(self, workspace: &mut Workspace, problem: &Problem, limit: Bytes) -> Option<Placement> {
        let Workspace { timeline, gaps, keys, pile, locations } = workspace;
        let Some(start) = self.start(timeline) else { return Some(Placement::default()) };
        let blocks = problem.blocks();
        let ended = timeline.ended[start] as usize;
        let live = timeline.by_end[ended..].iter().copied().filter(|&id| id as usize <= start);
        fill_pile(pile, keys, blocks, blocks[start].first_step, live);
        let height: Bytes = pile.iter().map(|&id| blocks[id as usize].size).sum();
        let capacity = timeline.lower_bound.max(height);
        if capacity > limit {
            return None;
        }
        let mut extension = PileExtension { blocks, timeline, gaps, limit };
        extension.forward(start, pile, capacity)?;
        extension.backward(start, pile)?;
        let mut locations = std::mem::take(locations);
        locations.clear();
        locations.extend(gaps.offsets().map(|offset| Location { chunk: 0, offset }));
        Some(Placement { chunks: vec![gaps.capacity()], locations })
    }

    /// Returns the last block that starts at the peak; `None` without blocks.
    fn start(self, timeline: &Timeline) -> Option<usize> {
        let Timeline { live_bytes, lower_bound: largest, .. } = timeline;
        match self {
            Self::Last => live_bytes.iter().rposition(|live| *live >= largest - largest / 50),
            Self::LastHigh => live_bytes.iter().rposition(|live| *live >= largest - largest / 20),
            Self::First => live_bytes.iter().position(|live| live == largest),
            Self::AfterLast => {
                let last = Self::Last.start(timeline)?;
                // Without a step after it, the same step.
                (last + 1..live_bytes.len()).max_by_key(|&at| live_bytes[at]).or(Some(last))
            }
        }
    }
}

impl Strategy for FromPeak {
    fn name(&self) -> &'static str {
        match self {
            Self::Last => "from the last peak",
            Self::LastHigh => "from the last high load",
            Self::First => "from the first peak",
            Self::AfterLast => "from the highest load after the last peak",
        }
    }

    fn place(&self, problem: &Problem) -> Placement {
        let placement = self.place_within(problem, Bytes::MAX);
        placement.expect("no limit")
    }
}

/// The order of the blocks in the pile: see [`fill_pile`].
type PileKey = (bool, Step, BlockId);

/// Lists that placing fills. Contents are discarded; capacity is reused.
#[derive(Debug, Default)]
pub struct Workspace {
    /// The timeline of the problem that is placed.
    pub timeline: Timeline,
    gaps: Gaps,
    keys: Vec<PileKey>,
    pile: Vec<BlockId>,
    locations: Vec<Location>,
}

impl Workspace {
    /// Takes the memory of a placement that is not needed any more.
    pub fn reuse(&mut self, placement: Placement) {
        self.locations = placement.locations;
    }
}

/// Fills `pile` with the blocks live at step `now`, the lowest first. Those with more steps after `now` than before
/// come first, the last to end first; then the others, the last to start first.
fn fill_pile(
    pile: &mut Vec<BlockId>,
    keys: &mut Vec<PileKey>,
    blocks: &[Block],
    now: Step,
    live: impl Iterator<Item = BlockId>,
) {
    let key = |id: BlockId| {
        let block = &blocks[id as usize];
        let (ahead, behind) = (block.end_step - now, now - block.first_step);
        if ahead > behind { (false, !ahead, id) } else { (true, behind, id) }
    };
    keys.clear();
    keys.extend(live.filter(|&id| blocks[id as usize].size > 0).map(key));
    keys.sort_unstable();
    pile.clear();
    pile.extend(keys.iter().map(|(_, _, id)| id));
}

/// Places the blocks outside the pile, forward and backward in time.
///
/// Reversed live ranges are half-open too, so two blocks overlap in one direction exactly if they do in the other.
struct PileExtension<'p> {
    blocks: &'p [Block],
    timeline: &'p Timeline,
    gaps: &'p mut Gaps,
    /// The largest capacity.
    limit: Bytes,
}

impl PileExtension<'_> {
    /// Places the blocks after `start`, the last one of the pile, in the order in which they start. `capacity` bytes
    /// are enough for the pile. Returns `None` as soon as a block does not fit.
    fn forward(&mut self, start: usize, pile: &[BlockId], capacity: Bytes) -> Option<()> {
        self.stack(pile, capacity, end);
        let Timeline { by_end, ended, .. } = self.timeline;
        let mut freed = ended[start] as usize;
        let next = start + 1;
        for ((block, &ended), id) in self.blocks[next..].iter().zip(&ended[next..]).zip(block_id(next)..) {
            for &dead in &by_end[freed..ended as usize] {
                self.gaps.free(dead);
            }
            freed = ended as usize;
            self.place(id, block, end)?;
        }
        Some(())
    }

    /// Places the blocks that end before the peak, in the reverse order of their ends. Returns `None` as soon as a
    /// block does not fit.
    fn backward(&mut self, start: usize, pile: &[BlockId]) -> Option<()> {
        self.stack(pile, self.gaps.capacity(), end_backward);
        let Timeline { by_end, ended, .. } = self.timeline;
        let mut started = &ended[..=start];
        let mut last = block_id(started.len());
        for (earlier, &id) in by_end[..ended[start] as usize].iter().enumerate().rev() {
            while let [others @ .., ended] = started
                && *ended as usize > earlier
            {
                started = others;
                last -= 1;
                self.gaps.free(last);
            }
            self.place(id, &self.blocks[id as usize], end_backward)?;
        }
        Some(())
    }

    fn stack(&mut self, pile: &[BlockId], capacity: Bytes, end: impl Fn(&Block) -> Time) {
        self.gaps.clear(capacity);
        for &id in pile {
            let block = &self.blocks[id as usize];
            self.gaps.stack(id, block.size, end(block));
        }
    }

    fn place(&mut self, id: BlockId, block: &Block, end: impl Fn(&Block) -> Time) -> Option<()> {
        if block.size > 0 { self.gaps.place(id, block.size, end(block), self.limit) } else { Some(()) }
    }
}

fn block_id(index: usize) -> BlockId {
    BlockId::try_from(index).expect("fewer than 2^32 blocks")
}

fn end(block: &Block) -> Time {
    block.end_step
}

fn end_backward(block: &Block) -> Time {
    !block.first_step
}
