//! Several strategies, the smallest placement wins.

use super::large::{choose_large, is_large};
use super::timeline::Timeline;
use super::{
    BestFit, Bytes, Effort, FromPeak, LargestFirst, Placement, Problem, Rank, Strategy, ValleySweep,
    search::{Least, minimize},
};

/// A placement and how good it is.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The smallest placement found.
    pub placement: Placement,
    /// The strategy that found it.
    pub strategy: &'static str,
    /// No placement of these live ranges is smaller.
    pub lower_bound: Bytes,
    /// A search has proven that there is no smaller placement in one chunk.
    pub proven: bool,
}

impl Choice {
    /// Is it as small as is possible at all?
    pub fn is_optimal(&self) -> bool {
        self.proven || self.placement.size() == self.lower_bound
    }
}

/// Tries one strategy after the other until one meets the lower bound, and searches for a little while when none does.
///
/// The answer is never larger than that of [`BestFit`], and never has more chunks.
pub fn choose(problem: &Problem) -> Choice {
    choose_with(problem, Effort::default())
}

/// Like [`choose`], with as much searching as `effort` allows.
pub fn choose_with(problem: &Problem, effort: Effort) -> Choice {
    choose_along(problem, &Timeline::of(problem), effort)
}

/// Like [`choose_with`], where the course of `problem` is known.
pub fn choose_along(problem: &Problem, timeline: &Timeline, effort: Effort) -> Choice {
    let lower_bound = timeline.largest_load;
    let limited = problem.max_chunk().is_some_and(|max| lower_bound > max);
    if limited {
        choose_limited(problem, lower_bound)
    } else if is_large(problem) {
        improved(problem, choose_large(problem, lower_bound), effort)
    } else {
        meet_bound(problem, timeline).unwrap_or_else(|| choose_unlimited(problem, lower_bound, effort))
    }
}

/// The quickest way to the lower bound, and there alone.
fn meet_bound(problem: &Problem, timeline: &Timeline) -> Option<Choice> {
    let lower_bound = timeline.largest_load;
    let (strategy, placement) = FromPeak::any_within(problem, timeline, lower_bound)?;
    Some(Choice { placement, strategy: strategy.name(), lower_bound, proven: false })
}

/// One chunk may suffice: stop at the first placement that meets the bound.
fn choose_unlimited(problem: &Problem, lower_bound: Bytes, effort: Effort) -> Choice {
    let mut best: Option<Choice> = None;
    for strategy in portfolio(problem).filter(|strategy| strategy.suits(problem)) {
        let placement = strategy.place(problem);
        let allowed = problem.max_chunk().is_none_or(|max| placement.size() <= max);
        if allowed && best.as_ref().is_none_or(|best| placement.size() < best.placement.size()) {
            best = Some(Choice { placement, strategy: strategy.name(), lower_bound, proven: false });
        }
        if best.as_ref().is_some_and(Choice::is_optimal) {
            break;
        }
    }
    let best = best.unwrap_or_else(|| choose_limited(problem, lower_bound));
    improved(problem, best, effort)
}

/// Searches for a smaller placement in one chunk.
fn improved(problem: &Problem, mut best: Choice, effort: Effort) -> Choice {
    if best.is_optimal() {
        return best;
    }
    let Least { placement, proven } = minimize(problem, best.placement.size(), effort);
    match placement {
        Some(placement) if problem.max_chunk().is_none_or(|max| placement.size() <= max) => {
            best = Choice { placement, strategy: "corner search", proven, ..best };
        }
        None if best.placement.chunks.len() <= 1 => best.proven = proven,
        _ => {}
    }
    best
}

/// Several chunks are needed: another strategy must beat ggml's own in bytes without taking more chunks.
fn choose_limited(problem: &Problem, lower_bound: Bytes) -> Choice {
    let placement = BestFit.place(problem);
    let chunks = placement.chunks.len();
    let mut best = Choice { placement, strategy: BestFit.name(), lower_bound, proven: false };
    let others = [LargestFirst::Size, LargestFirst::Area, LargestFirst::Length];
    for strategy in others.into_iter().filter(|strategy| strategy.suits(problem)) {
        let placement = strategy.place(problem);
        if placement.chunks.len() <= chunks && placement.size() < best.placement.size() {
            best = Choice { placement, strategy: strategy.name(), lower_bound, proven: false };
        }
    }
    best
}

/// With more blocks alive at once, on average, sweeps are quicker than the strategies that list who is alive together.
const MANY_ALIVE: u64 = 12;

/// The strategies where no walk from a peak meets the bound: first those that most often do on real graphs, ggml's own
/// last.
fn portfolio(problem: &Problem) -> impl Iterator<Item = &'static dyn Strategy> {
    const OF_PAIRS: [&dyn Strategy; 3] = [&LargestFirst::Size, &LargestFirst::Area, &LargestFirst::Length];
    const SWEEPS: [&dyn Strategy; 14] = [
        &ValleySweep::by(Rank::Start),
        &ValleySweep::by(Rank::Area),
        &ValleySweep::by(Rank::Length),
        &ValleySweep::by(Rank::Size),
        &ValleySweep::by(Rank::LengthThenSize),
        &ValleySweep::by(Rank::SizeThenLength),
        &ValleySweep::peaks_first_by(Rank::Length),
        &ValleySweep::peaks_first_by(Rank::End),
        &ValleySweep::peaks_first_by(Rank::LengthThenSize),
        &ValleySweep::peaks_first_by(Rank::Start),
        &ValleySweep::peaks_first_by(Rank::Area),
        &ValleySweep::peaks_first_by(Rank::SizeThenLength),
        &ValleySweep::peaks_first_by(Rank::Size),
        &ValleySweep::by(Rank::End),
    ];
    let (first, sweeps) = if is_dense(problem) { (0, SWEEPS.len()) } else { (1, 3) };
    let early = OF_PAIRS[..first].iter().chain(&SWEEPS[..sweeps]);
    let late = OF_PAIRS[first..].iter().chain(&SWEEPS[sweeps..]);
    early.chain(late).copied().chain([&BestFit as &dyn Strategy])
}

/// Are there more than [`MANY_ALIVE`] blocks alive at a step, on average?
fn is_dense(problem: &Problem) -> bool {
    let steps = problem.blocks().iter().map(|block| u64::from(block.end_step)).max().unwrap_or(0);
    let lengths: u64 = problem.blocks().iter().map(|block| u64::from(block.end_step - block.first_step)).sum();
    lengths > MANY_ALIVE * steps
}
