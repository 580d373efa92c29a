//! The lower bound: the bytes alive at the step that has the most.

use super::moments::Moments;
use super::{Bytes, Problem};

/// Up to so many steps a block, a number for each step is the quickest.
const MOST_STEPS_A_BLOCK: usize = 8;

/// The largest number of bytes alive at one step. No placement of these lifetimes is smaller.
pub fn lower_bound(problem: &Problem) -> Bytes {
    let steps = problem.blocks().iter().map(|block| block.death as usize).max().unwrap_or(0);
    let largest = if steps <= MOST_STEPS_A_BLOCK * problem.blocks().len() {
        largest_sum(live_deltas(problem, steps))
    } else {
        Moments::of(problem).loads(problem).into_iter().max().unwrap_or(0)
    };
    Bytes::try_from(largest).unwrap_or(Bytes::MAX)
}

/// The largest sum of the first few numbers.
fn largest_sum(deltas: Vec<i128>) -> i128 {
    let sums = deltas.into_iter().scan(0, |sum, delta| {
        *sum += delta;
        Some(*sum)
    });
    sums.max().unwrap_or(0)
}

/// By step, how the number of live bytes changes at its start.
fn live_deltas(problem: &Problem, steps: usize) -> Vec<i128> {
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
