//! From the pile through time.

use crate::placement::timeline::Timeline;
use crate::placement::{Block, BlockId, Bytes};

use super::gaps::{Gaps, Moment};

/// On the way through time.
///
/// LiveRanges are half-open both ways: blocks meet in one direction exactly when they do in the other.
pub struct Walk<'p> {
    pub blocks: &'p [Block],
    pub timeline: &'p Timeline,
    pub gaps: &'p mut Gaps,
    /// Bytes that may be used.
    pub limit: Bytes,
}

impl Walk<'_> {
    /// As the graph runs, from the first_step of the block `start` on, with a pile of blocks in `capacity` bytes, which are
    /// enough for it. `None` as soon as there is no location for a newborn block.
    pub fn forward(&mut self, start: usize, pile: &[BlockId], capacity: Bytes) -> Option<()> {
        self.stack(pile, capacity, dies);
        let Timeline { by_death, dead, .. } = self.timeline;
        let mut gone = dead[start] as usize;
        let born = start + 1;
        for ((block, &dead), id) in self.blocks[born..].iter().zip(&dead[born..]).zip(number(born)..) {
            for &next in &by_death[gone..dead as usize] {
                self.gaps.free(next);
            }
            gone = dead as usize;
            self.place(id, block, dies)?;
        }
        Some(())
    }

    /// The other way, on which blocks are born when they die.
    pub fn backward(&mut self, start: usize, pile: &[BlockId]) -> Option<()> {
        self.stack(pile, self.gaps.capacity(), dies_backward);
        let Timeline { by_death, dead, .. } = self.timeline;
        let mut unborn = &dead[..=start];
        let mut last = number(unborn.len());
        for (earlier, &id) in by_death[..dead[start] as usize].iter().enumerate().rev() {
            while let [others @ .., dead] = unborn
                && *dead as usize > earlier
            {
                unborn = others;
                last -= 1;
                self.gaps.free(last);
            }
            self.place(id, &self.blocks[id as usize], dies_backward)?;
        }
        Some(())
    }

    fn stack(&mut self, pile: &[BlockId], capacity: Bytes, dies: impl Fn(&Block) -> Moment) {
        self.gaps.clear(capacity);
        for &id in pile {
            let block = &self.blocks[id as usize];
            self.gaps.stack(id, block.size, dies(block));
        }
    }

    fn place(&mut self, id: BlockId, block: &Block, dies: impl Fn(&Block) -> Moment) -> Option<()> {
        if block.size > 0 { self.gaps.place(id, block.size, dies(block), self.limit) } else { Some(()) }
    }
}

fn number(block: usize) -> BlockId {
    BlockId::try_from(block).expect("fewer than 2^32 blocks")
}

fn dies(block: &Block) -> Moment {
    block.end_step
}

fn dies_backward(block: &Block) -> Moment {
    !block.first_step
}
