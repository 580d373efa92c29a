//! Places the blocks outside the pile, forward and backward in time.

use crate::placement::timeline::Timeline;
use crate::placement::{Block, BlockId, Bytes};

use super::gaps::{Gaps, Time};

/// The input and the working memory of both directions.
///
/// Reversed live ranges are half-open too, so two blocks overlap in one direction exactly if they do in the other.
pub struct PileExtension<'p> {
    pub blocks: &'p [Block],
    pub timeline: &'p Timeline,
    pub gaps: &'p mut Gaps,
    /// The largest capacity.
    pub limit: Bytes,
}

impl PileExtension<'_> {
    /// Places the blocks after `start`, the last one of the pile, in the order in which they start. `capacity` bytes
    /// are enough for the pile. Returns `None` as soon as a block does not fit.
    pub fn forward(&mut self, start: usize, pile: &[BlockId], capacity: Bytes) -> Option<()> {
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
    pub fn backward(&mut self, start: usize, pile: &[BlockId]) -> Option<()> {
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
