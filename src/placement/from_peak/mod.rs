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

mod direction;
mod gaps;
#[cfg(test)]
mod tests;

use super::timeline::Timeline;
use super::{BlockId, Bytes, Placement, Problem, Spot, Step, Strategy};
use direction::{Backward, Direction, Forward};
use gaps::Gaps;

/// The peak at which a placement starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromPeak {
    /// The last load of at least 99 % of the largest.
    Last,
    /// The last load of at least 95 % of the largest.
    LastHigh,
    /// The first of the largest loads.
    First,
}

impl FromPeak {
    /// Every start; those that most often lead to the lower bound on real graphs come first.
    pub const ALL: [Self; 3] = [Self::Last, Self::LastHigh, Self::First];

    /// A placement of at most `limit` bytes in one chunk; `None` as soon as that turns out not to be found this way.
    pub fn place_within(self, problem: &Problem, timeline: &Timeline, limit: Bytes) -> Option<Placement> {
        let Some(start) = self.start(timeline) else { return Some(Placement::default()) };
        let blocks = problem.blocks();
        let now = blocks[start].birth;
        let dead = timeline.by_death.partition_point(|&id| blocks[id as usize].death <= now);
        let (before, after) = timeline.by_death.split_at(dead);
        let pile = pile(problem, now, after.iter().copied().filter(|&id| id as usize <= start));
        let height: Bytes = pile.iter().map(|&id| blocks[id as usize].size).sum();
        let capacity = timeline.largest_load.max(height);
        if capacity > limit {
            return None;
        }
        let spots = vec![Spot::default(); blocks.len()];
        let mut walk = Walk { problem, limit, gaps: Gaps::new(blocks.len(), capacity), spots };
        let born = BlockId::try_from(start + 1).expect("fewer than 2^32 blocks");
        walk.stack::<Forward>(&pile);
        walk.go::<Forward>((born..).take(blocks.len() - start - 1), after.iter().copied())?;
        walk.gaps.clear(walk.gaps.capacity());
        walk.stack::<Backward>(&pile);
        walk.go::<Backward>(before.iter().rev().copied(), (0..born).rev())?;
        Some(Placement { chunks: vec![walk.gaps.capacity()], spots: walk.spots })
    }

    /// The last block that is born at the peak; `None` without blocks.
    fn start(self, timeline: &Timeline) -> Option<usize> {
        let Timeline { loads, largest_load: largest, .. } = timeline;
        match self {
            Self::Last => loads.iter().rposition(|load| *load >= largest - largest / 100),
            Self::LastHigh => loads.iter().rposition(|load| *load >= largest - largest / 20),
            Self::First => loads.iter().position(|load| load == largest),
        }
    }
}

impl Strategy for FromPeak {
    fn name(&self) -> &'static str {
        match self {
            Self::Last => "from the last peak",
            Self::LastHigh => "from the last high load",
            Self::First => "from the first peak",
        }
    }

    /// One chunk only: with a limit on chunks the answer may be larger than allowed, and the caller has to look.
    fn place(&self, problem: &Problem) -> Placement {
        let placement = self.place_within(problem, &Timeline::of(problem), Bytes::MAX);
        placement.expect("the sizes of a problem add up to less than the largest number")
    }
}

/// The blocks alive `now`, the lowest first: those that live on for longer than they have lived, the longest first;
/// then the others, those that have lived the longest last.
fn pile(problem: &Problem, now: Step, alive: impl Iterator<Item = BlockId>) -> Vec<BlockId> {
    let key = |id: BlockId| {
        let block = problem.blocks()[id as usize];
        let (ahead, behind) = (block.death - now, now - block.birth);
        if ahead > behind { (false, !ahead, id) } else { (true, behind, id) }
    };
    let mut keys: Vec<_> = alive.filter(|&id| problem.blocks()[id as usize].size > 0).map(key).collect();
    keys.sort_unstable();
    keys.into_iter().map(|(_, _, id)| id).collect()
}

/// On the way through time.
struct Walk<'p> {
    problem: &'p Problem,
    limit: Bytes,
    gaps: Gaps,
    /// By block; those without bytes stay at 0.
    spots: Vec<Spot>,
}

impl Walk<'_> {
    fn stack<D: Direction>(&mut self, pile: &[BlockId]) {
        for &id in pile {
            let block = self.problem.blocks()[id as usize];
            self.spots[id as usize].offset = self.gaps.stack(id, block.size, D::death(block));
        }
    }

    /// Gives a spot to all that are born; the dead come in the order of their deaths.
    fn go<D: Direction>(
        &mut self,
        births: impl Iterator<Item = BlockId>,
        mut deaths: impl Iterator<Item = BlockId>,
    ) -> Option<()> {
        let blocks = self.problem.blocks();
        let mut next = deaths.next();
        for id in births {
            let block = blocks[id as usize];
            let now = D::birth(block);
            while let Some(dead) = next.filter(|&dead| D::death(blocks[dead as usize]) <= now) {
                self.gaps.free(dead);
                next = deaths.next();
            }
            if block.size > 0 {
                self.spots[id as usize].offset = self.gaps.place(id, block.size, D::death(block), self.limit)?;
            }
        }
        Some(())
    }
}
