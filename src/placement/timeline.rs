//! The course of a problem: in which order blocks die, and how many bytes are alive when.

use super::{Block, BlockId, Bytes, Problem};

/// Up to so many steps a block, counting how many die at each step is the quickest way to sort them.
const MOST_STEPS_A_BLOCK: usize = 8;

/// The course of a problem.
#[derive(Debug)]
pub struct Timeline {
    /// The blocks in the order of their deaths; of those that die together the earlier comes first.
    pub by_death: Vec<BlockId>,
    /// By block: the bytes alive once it is born. Where several are born at a step, the last of them has the load of
    /// that step.
    pub loads: Vec<Bytes>,
    /// The largest of these loads: the lower bound.
    pub largest_load: Bytes,
}

impl Timeline {
    /// The course of `problem`. Right for problems that [`Problem::check_total`] accepts.
    pub fn of(problem: &Problem) -> Self {
        let by_death = by_death(problem.blocks());
        let loads =
            if problem.shrinks().is_empty() { loads(problem, &by_death) } else { held_loads(problem, &by_death) };
        let largest_load = loads.iter().copied().max().unwrap_or(0);
        Self { by_death, loads, largest_load }
    }
}

fn by_death(blocks: &[Block]) -> Vec<BlockId> {
    let last = blocks.iter().map(|block| block.death).max().unwrap_or(0) as usize;
    if last > MOST_STEPS_A_BLOCK * blocks.len() {
        let mut ids: Vec<BlockId> = (0..).take(blocks.len()).collect();
        ids.sort_by_key(|&id| blocks[id as usize].death);
        return ids;
    }
    // First how many die at a step, then where the first of them goes.
    let mut places: Vec<u32> = vec![0; last + 1];
    for block in blocks {
        places[block.death as usize] += 1;
    }
    let mut dead = 0;
    for place in &mut places {
        dead += std::mem::replace(place, dead);
    }
    let mut sorted = vec![0; blocks.len()];
    for (id, block) in (0..).zip(blocks) {
        let place = &mut places[block.death as usize];
        sorted[*place as usize] = id;
        *place += 1;
    }
    sorted
}

fn loads(problem: &Problem, by_death: &[BlockId]) -> Vec<Bytes> {
    let blocks = problem.blocks();
    let mut deaths = by_death.iter().map(|&id| blocks[id as usize]).peekable();
    let mut load: Bytes = 0;
    let load_after = |born: &Block| {
        while let Some(dead) = deaths.next_if(|dead| dead.death <= born.birth) {
            load -= dead.size;
        }
        load += born.size;
        load
    };
    blocks.iter().map(load_after).collect()
}

/// The same where blocks give back their tails.
fn held_loads(problem: &Problem, by_death: &[BlockId]) -> Vec<Bytes> {
    let blocks = problem.blocks();
    let mut held: Vec<Bytes> = blocks.iter().map(|block| block.size).collect();
    let mut shrinks = problem.shrinks().iter().peekable();
    let mut deaths = by_death.iter().map(|&id| id as usize).peekable();
    let mut load: Bytes = 0;
    let load_after = |born: &Block| {
        while let Some(shrink) = shrinks.next_if(|shrink| shrink.step <= born.birth) {
            load -= std::mem::replace(&mut held[shrink.block as usize], shrink.size) - shrink.size;
        }
        while let Some(dead) = deaths.next_if(|&dead| blocks[dead].death <= born.birth) {
            load -= held[dead];
        }
        load += born.size;
        load
    };
    blocks.iter().map(load_after).collect()
}
