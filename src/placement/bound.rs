//! The lower bound: the bytes alive at the step that has the most.

use super::{Bytes, Problem};

/// The largest number of bytes alive at one step. No placement of these lifetimes is smaller.
pub fn lower_bound(problem: &Problem) -> Bytes {
    let mut peak = 0;
    let mut live = 0i128;
    for delta in live_deltas(problem) {
        live += delta;
        peak = peak.max(live);
    }
    Bytes::try_from(peak).unwrap_or(Bytes::MAX)
}

/// By step, how the number of live bytes changes at its start.
fn live_deltas(problem: &Problem) -> Vec<i128> {
    let steps = problem.blocks().iter().map(|block| block.death as usize).max().unwrap_or(0);
    let mut deltas = vec![0i128; steps + 1];
    let mut held: Vec<Bytes> = problem.blocks().iter().map(|block| block.size).collect();
    for block in problem.blocks() {
        deltas[block.birth as usize] += i128::from(block.size);
    }
    for shrink in problem.shrinks() {
        let held = &mut held[shrink.block as usize];
        deltas[shrink.step as usize] -= i128::from(*held) - i128::from(shrink.size);
        *held = shrink.size;
    }
    for (block, held) in problem.blocks().iter().zip(held) {
        deltas[block.death as usize] -= i128::from(held);
    }
    deltas
}
