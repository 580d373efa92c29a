//! Starts at a peak, where nearly all memory is taken, and goes through time from there, forwards and backwards.
//!
//! ```text
//!  offset    peak            The blocks alive at the peak form a pile: those that live on for long lie at the bottom,
//!    ^        :              those that have lived for long at the top. So memory becomes free in one piece, whichever
//!    |  +-----:----+         way one goes.
//!    |  |     :  c |
//!    |  +-+--++-+--+         What is born goes into a gap, beside the neighbour that outlives it by the least, since
//!    |    |d ||b|            what dies together leaves one gap. Here e lies on a, which outlives it, not below c,
//!    |    +--+| +----+       which does not.
//!    |        | |  e |
//!    |        +-+----+--+    Backwards it is the same, for there what dies is born: d lies below c. The two ways have
//!    |        |    a    |    nothing in common but the pile.
//!    +--------+---------+-> step
//! ```
//!
//! Linear in the number of blocks where gaps are few, as they are in graphs; but nothing is ever moved for what comes
//! later, and so this meets the lower bound or is far from it.

mod gaps;
#[cfg(test)]
mod tests;
mod walk;

use super::timeline::Timeline;
use super::{Block, BlockId, Bytes, Location, Placement, Problem, Step, Strategy};
use gaps::Gaps;
use walk::Walk;

/// The peak at which a placement starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromPeak {
    /// The last load of at least 99 % of the largest.
    Last,
    /// The last load of at least 95 % of the largest.
    LastHigh,
    /// The first of the largest loads.
    First,
    /// The last of the largest loads after [`FromPeak::Last`]: where layers that are all alike end in a larger one.
    AfterLast,
}

impl FromPeak {
    /// Every start; those that most often lead to the lower bound on real graphs come first.
    pub const ALL: [Self; 4] = [Self::Last, Self::AfterLast, Self::LastHigh, Self::First];

    /// A placement of at most `limit` bytes in one chunk, and the start that leads to it; `None` where none does.
    pub fn any_within(problem: &Problem, timeline: &Timeline, limit: Bytes) -> Option<(Self, Placement)> {
        let mut gaps = Gaps::new(problem.blocks().len());
        Self::ALL.into_iter().find_map(|start| Some((start, start.place_in(&mut gaps, problem, timeline, limit)?)))
    }

    /// A placement of at most `limit` bytes in one chunk; `None` as soon as that turns out not to be found this way.
    pub fn place_within(self, problem: &Problem, timeline: &Timeline, limit: Bytes) -> Option<Placement> {
        self.place_in(&mut Gaps::new(problem.blocks().len()), problem, timeline, limit)
    }

    /// The same, in memory for these blocks that may be used again for another start.
    fn place_in(self, gaps: &mut Gaps, problem: &Problem, timeline: &Timeline, limit: Bytes) -> Option<Placement> {
        let Some(start) = self.start(timeline) else { return Some(Placement::default()) };
        let blocks = problem.blocks();
        let dead = timeline.dead[start] as usize;
        let alive = timeline.by_death[dead..].iter().copied().filter(|&id| id as usize <= start);
        let pile = pile(blocks, blocks[start].first_step, alive);
        let height: Bytes = pile.iter().map(|&id| blocks[id as usize].size).sum();
        let capacity = timeline.largest_load.max(height);
        if capacity > limit {
            return None;
        }
        let mut walk = Walk { blocks, timeline, gaps, limit };
        walk.forward(start, &pile, capacity)?;
        walk.backward(start, &pile)?;
        let locations = gaps.offsets().map(|offset| Location { chunk: 0, offset }).collect();
        Some(Placement { chunks: vec![gaps.capacity()], locations })
    }

    /// The last block that is born at the peak; `None` without blocks.
    fn start(self, timeline: &Timeline) -> Option<usize> {
        let Timeline { loads, largest_load: largest, .. } = timeline;
        match self {
            Self::Last => loads.iter().rposition(|load| *load >= largest - largest / 100),
            Self::LastHigh => loads.iter().rposition(|load| *load >= largest - largest / 20),
            Self::First => loads.iter().position(|load| load == largest),
            Self::AfterLast => {
                let last = Self::Last.start(timeline)?;
                // Where nothing comes after it, there itself.
                (last + 1..loads.len()).max_by_key(|&at| loads[at]).or(Some(last))
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

    /// One chunk only: with a limit on chunks the answer may be larger than allowed, and the caller has to look.
    fn place(&self, problem: &Problem) -> Placement {
        let placement = self.place_within(problem, &Timeline::of(problem), Bytes::MAX);
        placement.expect("the sizes of a problem add up to less than the largest number")
    }
}

/// Most piles are not higher.
const FEW_ALIVE: usize = 32;

/// The blocks alive `now`, the lowest first: those that live on for longer than they have lived, the longest first;
/// then the others, those that have lived the longest last.
fn pile(blocks: &[Block], now: Step, alive: impl Iterator<Item = BlockId>) -> Vec<BlockId> {
    let key = |id: BlockId| {
        let block = &blocks[id as usize];
        let (ahead, behind) = (block.end_step - now, now - block.first_step);
        if ahead > behind { (false, !ahead, id) } else { (true, behind, id) }
    };
    let mut keys = Vec::with_capacity(FEW_ALIVE);
    keys.extend(alive.filter(|&id| blocks[id as usize].size > 0).map(key));
    keys.sort_unstable();
    keys.into_iter().map(|(_, _, id)| id).collect()
}
