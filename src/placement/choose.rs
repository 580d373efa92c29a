//! Tries strategies in a fixed order and keeps the smallest placement.

use super::search::{Minimum, minimize};
use super::valley_sweep::best_sweep;
use super::{
    BestFit, Bytes, Effort, FromPeak, LargestFirst, Placement, Problem, Strategy, Timeline, ValleySweep, Workspace,
};

/// The strategies besides [`FromPeak`], whose placements are of use at the lower bound only.
pub const STRATEGIES: [&dyn Strategy; 12] = [
    &LargestFirst::Size,
    &LargestFirst::Area,
    &LargestFirst::Length,
    &ValleySweep::LoadAndLength,
    &ValleySweep::LoadLengthAndSize,
    &ValleySweep::LengthAndSize,
    &ValleySweep::LoadAndArea,
    &ValleySweep::LoadAndEnd,
    &ValleySweep::SizeAndLength,
    &ValleySweep::LoadSizeAndLength,
    &ValleySweep::End,
    &BestFit,
];

/// With more blocks than this, which is more than any graph of a language model has, only sweeps are fast enough.
const MANY_BLOCKS: usize = 4096;

/// The number of blocks that all sweeps over one large problem place together.
const SWEPT_BLOCKS: usize = 4_000_000;

/// The least and the largest number of sweeps over one problem.
const SWEEPS: [usize; 2] = [4, 20];

/// A placement and how good it is.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The smallest placement found.
    pub placement: Placement,
    /// The name of the strategy that found it.
    pub strategy: &'static str,
    /// The peak of the memory profile: no placement of these live ranges is smaller.
    pub lower_bound: Bytes,
    /// True if a search has proven that no placement in one chunk is smaller.
    pub proven: bool,
}

impl Choice {
    fn new(placement: Placement, strategy: &'static str, lower_bound: Bytes) -> Self {
        Self { placement, strategy, lower_bound, proven: false }
    }

    fn by(strategy: &dyn Strategy, problem: &Problem, lower_bound: Bytes) -> Self {
        Self::new(strategy.place(problem), strategy.name(), lower_bound)
    }

    /// Returns `true` if no placement is smaller.
    pub fn is_optimal(&self) -> bool {
        self.proven || self.placement.size() == self.lower_bound
    }

    /// Returns `true` if the first and fastest strategies found the placement.
    pub fn is_from_peak(&self) -> bool {
        FromPeak::ALL.iter().any(|start| start.name() == self.strategy)
    }

    fn is_smaller_than(&self, other: &Self) -> bool {
        self.placement.size() < other.placement.size()
    }
}

/// Chooses the smallest placement of several strategies, and searches for a smaller one with at most `effort`. Stops at
/// the lower bound. `timeline` is that of `problem`, where it is known.
///
/// The placement is never larger than that of [`BestFit`], and never has more chunks.
pub fn choose(problem: &Problem, timeline: Option<Timeline>, effort: Effort, workspace: &mut Workspace) -> Choice {
    match timeline {
        Some(known) => workspace.timeline = known,
        None => workspace.timeline.compute(problem),
    }
    let lower_bound = workspace.timeline.lower_bound;
    if problem.max_chunk().is_some_and(|max| lower_bound > max) {
        return in_several_chunks(problem, Choice::by(&BestFit, problem, lower_bound));
    }
    let is_large = problem.blocks().len() > MANY_BLOCKS;
    match (!is_large).then(|| FromPeak::any_within(workspace, problem, lower_bound)).flatten() {
        Some((start, placement)) => Choice::new(placement, start.name(), lower_bound),
        None => improved(problem, in_one_chunk(problem, lower_bound), effort),
    }
}

/// Returns the placements of all strategies that fit into chunks of these sizes, each with the name of its strategy.
pub fn placements_within(problem: &Problem, chunks: &[Bytes]) -> impl Iterator<Item = (Placement, &'static str)> {
    let fits = move |placement: &Placement| {
        placement.chunks.len() <= chunks.len() && placement.chunks.iter().zip(chunks).all(|(size, limit)| size <= limit)
    };
    let suitable =
        STRATEGIES.into_iter().filter(|strategy| problem.blocks().len() <= MANY_BLOCKS && strategy.suits(problem));
    suitable.map(|strategy| (strategy.place(problem), strategy.name())).filter(move |(placement, _)| fits(placement))
}

/// Returns the smallest placement of several sweeps in one chunk, or that of ggml's own strategy if it is not larger.
/// Returns one in several chunks if both exceed the limit on chunks.
fn in_one_chunk(problem: &Problem, lower_bound: Bytes) -> Choice {
    let best_fit = Choice::by(&BestFit, problem, lower_bound);
    let [least, most] = SWEEPS;
    let sweeps = (SWEPT_BLOCKS / problem.blocks().len().max(1)).clamp(least, most);
    match best_sweep(problem, lower_bound, best_fit.placement.size(), sweeps) {
        Some((placement, order)) if is_within_limit(problem, &placement) => {
            Choice::new(placement, order.name(), lower_bound)
        }
        _ if best_fit.placement.chunks.len() <= 1 => best_fit,
        _ => in_several_chunks(problem, best_fit),
    }
}

/// Returns the smallest placement that has no more chunks than `best_fit`, that of ggml's own strategy.
fn in_several_chunks(problem: &Problem, best_fit: Choice) -> Choice {
    let (lower_bound, chunks) = (best_fit.lower_bound, best_fit.placement.chunks.len());
    let mut best = best_fit;
    for strategy in LargestFirst::ALL.into_iter().filter(|strategy| strategy.suits(problem)) {
        let choice = Choice::by(&strategy, problem, lower_bound);
        if choice.placement.chunks.len() <= chunks && choice.is_smaller_than(&best) {
            best = choice;
        }
    }
    best
}

/// Searches for a smaller placement in one chunk.
fn improved(problem: &Problem, mut best: Choice, effort: Effort) -> Choice {
    if best.is_optimal() {
        return best;
    }
    let Minimum { placement, proven } = minimize(problem, best.placement.size(), effort);
    match placement {
        Some(placement) if is_within_limit(problem, &placement) => {
            best = Choice { placement, strategy: "corner search", proven, ..best };
        }
        None if best.placement.chunks.len() <= 1 => best.proven = proven,
        _ => {}
    }
    best
}

fn is_within_limit(problem: &Problem, placement: &Placement) -> bool {
    problem.max_chunk().is_none_or(|max| placement.size() <= max)
}
