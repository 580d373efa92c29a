//! The memory profile: live bytes by step.

use std::ops::Range;

use super::{Bytes, Problem, Step};

/// Returns the live bytes at each step, up to the last step at which a block is live.
///
/// Expects a problem that [`Problem::check_total`] accepts. The largest entry is the
/// [lower bound](super::lower_bound), which is faster to compute alone.
pub fn memory_profile(problem: &Problem) -> Vec<Bytes> {
    let steps = problem.blocks().iter().map(|block| block.end_step as usize).max().unwrap_or(0);
    let blocks = problem.blocks().iter().map(|block| (block.first_step as usize..block.end_step as usize, block.size));
    let tails =
        problem.list().tails().map(|tail| (tail.free.start as usize..tail.free.end as usize, tail.size.wrapping_neg()));
    sum_of_ranges(steps, blocks.chain(tails))
}

/// Returns the steps at which a memory profile is at its peak, in order, as half-open ranges of adjacent steps.
pub fn peaks(profile: &[Bytes]) -> Vec<Range<Step>> {
    let peak = profile.iter().copied().max();
    let mut peaks: Vec<Range<Step>> = Vec::new();
    for (step, _) in (0..).zip(profile).filter(|&(_, &live)| Some(live) == peak) {
        match peaks.last_mut() {
            Some(last) if last.end == step => last.end = step + 1,
            _ => peaks.push(step..step + 1),
        }
    }
    peaks
}

/// Returns, by index below `len`, the sum of the values of all `ranges` that contain it.
///
/// Sums wrap around. So a value may be negative, in two's complement, as long as the sums are not.
pub fn sum_of_ranges(len: usize, ranges: impl Iterator<Item = (Range<usize>, u64)>) -> Vec<u64> {
    // First by how much the sum changes at each index.
    let mut sums = vec![0_u64; len + 1];
    for (range, value) in ranges {
        sums[range.start] = sums[range.start].wrapping_add(value);
        sums[range.end] = sums[range.end].wrapping_sub(value);
    }
    let mut sum: u64 = 0;
    for entry in &mut sums {
        sum = sum.wrapping_add(*entry);
        *entry = sum;
    }
    sums.pop();
    sums
}
