//! The lower bound: the bytes alive at the step that has the most.

use super::timeline::Timeline;
use super::{Bytes, Problem};

/// The largest number of bytes alive at one step. No placement of these live ranges is smaller.
pub fn lower_bound(problem: &Problem) -> Bytes {
    Timeline::of(problem).largest_load
}

/// By step, the bytes alive. Right for problems that [`Problem::check_total`] accepts.
pub fn loads(problem: &Problem) -> Vec<Bytes> {
    let steps = problem.blocks().iter().map(|block| block.end_step as usize).max().unwrap_or(0);
    // First how the number of live bytes changes at the start of each step. Falls wrap around, and back when summed up.
    let mut loads: Vec<Bytes> = vec![0; steps + 1];
    let mut change = |step: u32, born: Bytes, freed: Bytes| {
        let load = &mut loads[step as usize];
        *load = load.wrapping_add(born).wrapping_sub(freed);
    };
    for block in problem.blocks() {
        change(block.first_step, block.size, 0);
        change(block.end_step, 0, block.size);
    }
    let mut held: Vec<(u32, Bytes)> = Vec::new();
    for shrink in problem.shrinks() {
        let block = problem.blocks()[shrink.block as usize];
        let known = held.iter_mut().find(|(id, _)| *id == shrink.block);
        let before = known.as_ref().map_or(block.size, |(_, size)| *size);
        match known {
            Some((_, size)) => *size = shrink.size,
            None => held.push((shrink.block, shrink.size)),
        }
        change(shrink.step, 0, before - shrink.size);
        change(block.end_step, before - shrink.size, 0);
    }
    let mut load: Bytes = 0;
    for step in &mut loads {
        load = load.wrapping_add(*step);
        *step = load;
    }
    loads.pop();
    loads
}
