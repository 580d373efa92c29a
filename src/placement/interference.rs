//! Which live ranges overlap.

use std::ops::Range;

use super::{BlockId, Problem};

/// The interference graph: by block, the others that are live at some step at which it is.
///
/// Blocks are numbered in the order of their first steps, so those that start while a block is live follow it directly.
/// Only those that are live already when a block starts are stored.
#[derive(Debug)]
pub struct Interference {
    /// By block, where its list starts in `live_at_start`; one entry more at the end.
    list_starts: Vec<usize>,
    live_at_start: Vec<BlockId>,
    /// By block, the first block that starts after its end.
    next: Vec<BlockId>,
}

impl Interference {
    /// Sweeps over the starts of all blocks with a list of the live ones.
    pub fn of(problem: &Problem) -> Self {
        let blocks = problem.blocks();
        let count = BlockId::try_from(blocks.len()).expect("fewer than 2^32 blocks");
        let mut list_starts = Vec::with_capacity(blocks.len() + 1);
        let mut live_at_start = Vec::with_capacity(blocks.len() * 8);
        let mut next = vec![count; blocks.len()];
        let mut live: Vec<BlockId> = Vec::new();
        for (id, block) in (0..).zip(blocks) {
            live.retain(|&other| {
                let is_live = blocks[other as usize].end_step > block.first_step;
                if !is_live {
                    next[other as usize] = id;
                }
                is_live
            });
            list_starts.push(live_at_start.len());
            live_at_start.extend_from_slice(&live);
            live.push(id);
        }
        list_starts.push(live_at_start.len());
        Self { list_starts, live_at_start, next }
    }

    /// Returns the number of blocks that interfere with `block`.
    pub fn count(&self, block: BlockId) -> usize {
        self.before(block).len() + self.after(block).len()
    }

    /// Returns the earlier blocks that are live when `block` starts.
    pub fn before(&self, block: BlockId) -> &[BlockId] {
        let block = block as usize;
        &self.live_at_start[self.list_starts[block]..self.list_starts[block + 1]]
    }

    /// Returns the later blocks that start while `block` is live.
    pub fn after(&self, block: BlockId) -> Range<BlockId> {
        block + 1..self.next[block as usize]
    }
}

/// Returns `true` if at most `most` pairs of live ranges overlap. Counts the pairs without listing them.
pub fn has_few_overlaps(problem: &Problem, most: u64) -> bool {
    let blocks = problem.blocks();
    let count = blocks.len() as u64;
    if count * count.saturating_sub(1) / 2 <= most {
        return true;
    }
    let mut ends: Vec<_> = blocks.iter().map(|block| block.end_step).collect();
    ends.sort_unstable();
    let mut ended = 0;
    let live_before = (0..).zip(blocks).map(|(started, block)| {
        ended += ends[ended..].iter().take_while(|&&end_step| end_step <= block.first_step).count();
        started - ended as u64
    });
    live_before.sum::<u64>() <= most
}
