//! Which blocks are alive together.

use super::{BlockId, Problem, Step};

/// By block, the others whose lifetimes meet its own, in compressed rows.
#[derive(Debug)]
pub struct Conflicts {
    starts: Vec<usize>,
    neighbours: Vec<BlockId>,
}

impl Conflicts {
    /// Sweeps over the births with a list of the blocks alive.
    pub fn of(problem: &Problem) -> Self {
        let pairs = pairs(problem);
        let mut starts = vec![0usize; problem.blocks().len() + 1];
        for &(a, b) in &pairs {
            starts[a as usize + 1] += 1;
            starts[b as usize + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut next = starts.clone();
        let mut neighbours = vec![0; pairs.len() * 2];
        for (a, b) in pairs {
            for (from, to) in [(a, b), (b, a)] {
                neighbours[next[from as usize]] = to;
                next[from as usize] += 1;
            }
        }
        Self { starts, neighbours }
    }

    /// The blocks that are alive at some step together with `block`.
    pub fn neighbours(&self, block: BlockId) -> &[BlockId] {
        let block = block as usize;
        &self.neighbours[self.starts[block]..self.starts[block + 1]]
    }
}

/// How many pairs of blocks are alive together, without listing them.
pub fn count_conflicts(problem: &Problem) -> u64 {
    let blocks = problem.blocks();
    let mut deaths: Vec<Step> = blocks.iter().map(|block| block.death).collect();
    deaths.sort_unstable();
    let mut dead = 0;
    let alive_before = blocks.iter().enumerate().map(|(born, block)| {
        dead += deaths[dead..].iter().take_while(|&&death| death <= block.birth).count();
        (born - dead) as u64
    });
    alive_before.sum()
}

fn pairs(problem: &Problem) -> Vec<(BlockId, BlockId)> {
    let blocks = problem.blocks();
    let mut pairs = Vec::with_capacity(blocks.len() * 4);
    let mut alive: Vec<BlockId> = Vec::new();
    for (id, block) in (0..).zip(blocks) {
        alive.retain(|&other| blocks[other as usize].death > block.birth);
        pairs.extend(alive.iter().map(|&other| (other, id)));
        alive.push(id);
    }
    pairs
}
