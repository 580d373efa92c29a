//! The starts and ends of live ranges in order, with the live bytes at each start.

mod live_blocks;

use super::filled::filled;
use super::profile::sum_of_ranges;
use super::{Block, BlockId, BlockList, Bytes, Problem, Step};
use live_blocks::LiveBlocks;

/// Returns the peak of the memory profile. No placement of these live ranges is smaller.
///
/// Expects a problem that [`Problem::check_total`] accepts.
pub fn lower_bound(problem: &Problem) -> Bytes {
    Timeline::of(problem).lower_bound
}

/// The starts and ends of live ranges in order, with the live bytes at each start.
///
/// The memory profile rises nowhere else, so its peak is among these.
#[derive(Debug)]
pub struct Timeline {
    /// The blocks in the order of their ends; of equal ends the earlier block first.
    pub by_end: Vec<BlockId>,
    /// By block: how many blocks have ended when it starts. They are the first of `by_end`.
    pub ended: Vec<u32>,
    /// By block: the live bytes once it has started. Where several blocks start at a step, the last of them has the
    /// live bytes of that step.
    pub live_bytes: Vec<Bytes>,
    /// The largest of `live_bytes`.
    pub lower_bound: Bytes,
}

impl Timeline {
    /// Computes the timeline of a problem that [`Problem::check_total`] accepts.
    pub fn of(problem: &Problem) -> Self {
        Self::of_blocks(problem.list())
    }

    /// Computes the timeline of blocks that [`BlockList::check_total`] accepts.
    pub fn of_blocks(list: &BlockList) -> Self {
        let blocks = list.blocks();
        let mut timeline = sweep(blocks, LiveBlocks::none(blocks.len()), LiveBlocks::add)
            .or_else(|| sweep(blocks, LiveBlocks::all(blocks), |_, _, _| Some(())))
            .expect("blocks that are sorted in advance are never too many");
        if !list.shrinks().is_empty() {
            timeline.subtract_tails(list);
        }
        timeline
    }

    /// Subtracts the bytes that become free before their blocks end.
    fn subtract_tails(&mut self, list: &BlockList) {
        let blocks = list.blocks();
        let first_from = |step: Step| blocks.partition_point(|block| block.first_step < step);
        let tails = list.tails().map(|tail| (first_from(tail.free.start)..first_from(tail.free.end), tail.size));
        for (live, free) in self.live_bytes.iter_mut().zip(sum_of_ranges(blocks.len(), tails)) {
            *live -= free;
        }
        self.lower_bound = self.live_bytes.iter().copied().max().unwrap_or(0);
    }
}

/// Computes the timeline of `blocks`, all at their full sizes. `add` inserts a block that starts into `live`; returns
/// `None` as soon as it does.
fn sweep(
    blocks: &[Block],
    mut live: LiveBlocks,
    add: impl Fn(&mut LiveBlocks, BlockId, Step) -> Option<()>,
) -> Option<Timeline> {
    let (mut by_end, mut ended, mut live_bytes) =
        (filled(0, blocks.len()), filled(0, blocks.len()), filled(0, blocks.len()));
    let mut ends: u32 = 0;
    let (mut bytes, mut lower_bound): (Bytes, Bytes) = (0, 0);
    for (((block, id), ended), live_bytes) in blocks.iter().zip(0..).zip(&mut ended).zip(&mut live_bytes) {
        let &Block { size, first_step, end_step } = block;
        live.remove_ended(first_step, |next| {
            bytes -= blocks[next as usize].size;
            by_end[ends as usize] = next;
            ends += 1;
        });
        bytes += size;
        lower_bound = lower_bound.max(bytes);
        (*ended, *live_bytes) = (ends, bytes);
        add(&mut live, id, end_step)?;
    }
    live.remove_ended(Step::MAX, |next| {
        by_end[ends as usize] = next;
        ends += 1;
    });
    Some(Timeline { by_end, ended, live_bytes, lower_bound })
}
