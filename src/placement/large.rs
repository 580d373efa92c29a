//! Problems that are too large for anything whose time grows faster than the number of blocks.

use std::ops::RangeInclusive;

use super::valley_sweep::best_sweep;
use super::{BestFit, Bytes, Choice, Placement, Problem, Strategy};

/// More blocks than any graph of a language model has.
const MANY_BLOCKS: usize = 4096;

/// How many blocks the sweeps over one problem look at in all.
const SWEPT_BLOCKS: usize = 4_000_000;

/// How many sweeps that makes, at least and at most.
const SWEEPS: RangeInclusive<usize> = 4..=20;

/// Should [`choose_large`] choose?
pub fn is_large(problem: &Problem) -> bool {
    problem.blocks().len() > MANY_BLOCKS
}

/// The best of several sweeps, where a single chunk may suffice; ggml's own strategy when that is better.
pub fn choose_large(problem: &Problem, lower_bound: Bytes) -> Choice {
    let placement = BestFit.place(problem);
    let sweeps = (SWEPT_BLOCKS / problem.blocks().len().max(1)).clamp(*SWEEPS.start(), *SWEEPS.end());
    let allowed = |placement: &Placement| problem.max_chunk().is_none_or(|max| placement.size() <= max);
    let sweep = best_sweep(problem, lower_bound, placement.size(), sweeps).filter(|(placement, _)| allowed(placement));
    let (placement, strategy) = sweep.unwrap_or((placement, BestFit.name()));
    Choice { placement, strategy, lower_bound, proven: false }
}
