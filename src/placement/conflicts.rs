//! Which blocks are alive together.

use std::ops::Range;

use super::{BlockId, Problem};

/// By block, the others whose live ranges meet its own. Blocks are numbered in the order of their births, so those born
/// while a block is alive follow it; only those that are alive when it is born are listed.
#[derive(Debug)]
pub struct Conflicts {
    /// By block, where its list starts; the end of the last one at the end.
    starts: Vec<usize>,
    alive_at_birth: Vec<BlockId>,
    /// By block, the first that is born when it is dead.
    next: Vec<BlockId>,
}

impl Conflicts {
    /// Sweeps over the births with a list of the blocks alive.
    pub fn of(problem: &Problem) -> Self {
        let blocks = problem.blocks();
        let count = BlockId::try_from(blocks.len()).expect("fewer than 2^32 blocks");
        let mut starts = Vec::with_capacity(blocks.len() + 1);
        let mut alive_at_birth = Vec::with_capacity(blocks.len() * 8);
        let mut next = vec![count; blocks.len()];
        let mut alive: Vec<BlockId> = Vec::new();
        for (id, block) in (0..).zip(blocks) {
            alive.retain(|&other| {
                let is_alive = blocks[other as usize].end_step > block.first_step;
                if !is_alive {
                    next[other as usize] = id;
                }
                is_alive
            });
            starts.push(alive_at_birth.len());
            alive_at_birth.extend_from_slice(&alive);
            alive.push(id);
        }
        starts.push(alive_at_birth.len());
        Self { starts, alive_at_birth, next }
    }

    /// How many blocks are alive at some step together with `block`.
    pub fn count(&self, block: BlockId) -> usize {
        self.before(block).len() + self.after(block).len()
    }

    /// The blocks that are alive when `block` is born, and were born before it.
    pub fn before(&self, block: BlockId) -> &[BlockId] {
        let block = block as usize;
        &self.alive_at_birth[self.starts[block]..self.starts[block + 1]]
    }

    /// The blocks that are born after `block` while it is alive.
    pub fn after(&self, block: BlockId) -> Range<BlockId> {
        block + 1..self.next[block as usize]
    }
}

/// Are there at most so many pairs of blocks that are alive together? Without listing them.
pub fn has_few_conflicts(problem: &Problem, most: u64) -> bool {
    let blocks = problem.blocks();
    let count = blocks.len() as u64;
    if count * count.saturating_sub(1) / 2 <= most {
        return true;
    }
    let mut deaths: Vec<_> = blocks.iter().map(|block| block.end_step).collect();
    deaths.sort_unstable();
    let mut dead = 0;
    let alive_before = (0..).zip(blocks).map(|(born, block)| {
        dead += deaths[dead..].iter().take_while(|&&end_step| end_step <= block.first_step).count();
        born - dead as u64
    });
    alive_before.sum::<u64>() <= most
}
