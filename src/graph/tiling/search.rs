//! The search for tilings with which the memory profile fits a target.

use crate::graph::{BufferIndex, BufferSpec, Sizes};
use crate::placement::{Bytes, Step};

use super::candidates::{Aim, Candidate, best};
use super::draft::Draft;
use super::facts::DraftFacts;
use super::rewrite::{RegionTiling, rewrite};

/// How often the graph is tiled again for one target: tiles of tiles may be tiled.
const ROUNDS: usize = 12;

/// A graph that was tiled for a target.
pub struct Found {
    /// The tiling graph; `None` if nothing was tiled.
    pub draft: Option<Draft>,
    /// The largest sum of live bytes, over all buffers.
    pub peak: Bytes,
    /// Whether tilings made it larger: their estimates were wrong.
    pub is_misled: bool,
    /// The tilings, each with the graph before it.
    pub tilings: Vec<TiledTensor>,
}

/// A region that was tiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TiledTensor {
    /// The tensor of the given graph that was largest in the region, and is computed in tiles.
    pub tensor: crate::graph::TensorId,
    /// The dimension that was tiled.
    pub dimension: usize,
    /// How many tiles there are.
    pub tiles: u32,
    /// Bytes of the whole tensor, and of its largest tile.
    pub bytes: [Bytes; 2],
}

/// The target for the live bytes of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Maximum number of bytes, over all buffers.
    Target(Bytes),
    /// The fewest that the search can reach.
    Least,
}

/// The search, with its work limit.
pub struct Search<'a> {
    pub buffers: &'a [BufferSpec],
    pub sizes: &'a mut dyn Sizes,
    pub threads: u32,
    /// Nodes that may still be looked at.
    pub left: u64,
    /// By buffer: the most live bytes that are known of a step of the given graph that cannot be lowered.
    pub least: Vec<Bytes>,
}

impl Search<'_> {
    /// Tiles a graph until its live bytes are within the goal, or nothing lowers them. `None` when sizes overflow.
    pub fn tiling_for(&mut self, given: &DraftFacts<'_>, goal: Goal) -> Option<Found> {
        let mut found = Found { draft: None, peak: given.peak(), is_misled: false, tilings: Vec::new() };
        let mut least = self.least.clone();
        for round in 0..=ROUNDS {
            let own = match &found.draft {
                Some(draft) => Some(DraftFacts::of(draft, self.buffers, self.sizes)?),
                None => None,
            };
            let facts = own.as_ref().unwrap_or(given);
            found.is_misled |= facts.peak() > found.peak;
            found.peak = facts.peak();
            self.left = self.left.saturating_sub(facts.draft.graph.nodes().len() as u64);
            if round == ROUNDS {
                break;
            }
            let tilings = match goal {
                Goal::Target(target) => self.tilings_for(facts, target, found.draft.is_none()),
                Goal::Least => self.fewest_tilings(facts, &mut least),
            };
            if goal == Goal::Least && found.draft.is_none() {
                self.least.clone_from(&least);
            }
            if tilings.is_empty() {
                break;
            }
            let Some(draft) = rewrite(facts, &tilings) else { break };
            found.tilings.extend(tilings.iter().map(|tiled| made(facts, tiled)));
            drop(own);
            found.draft = Some(draft);
        }
        Some(found)
    }

    /// Returns tilings, apart from each other, that lower the steps above the target; none if a step cannot be lowered.
    fn tilings_for(&mut self, facts: &DraftFacts<'_>, target: Bytes, is_given: bool) -> Vec<RegionTiling> {
        let mut tilings = Vec::new();
        for (buffer, limit) in limits(facts, target) {
            if is_given && self.least[buffer as usize] > limit {
                return Vec::new();
            }
            if let Err(Stuck { live }) = self.add_tilings(facts, (buffer, limit), &mut tilings) {
                if is_given && self.left > 0 {
                    self.least[buffer as usize] = live;
                }
                return Vec::new();
            }
        }
        tilings
    }

    /// Returns tilings, apart from each other, that lower the steps above the least live bytes, by buffer. These are
    /// raised to those of steps that cannot be lowered.
    fn fewest_tilings(&mut self, facts: &DraftFacts<'_>, least: &mut [Bytes]) -> Vec<RegionTiling> {
        let mut tilings = Vec::new();
        for (buffer, least) in (0..).zip(least) {
            let known = tilings.len();
            while let Err(Stuck { live }) = self.add_tilings(facts, (buffer, *least), &mut tilings) {
                tilings.truncate(known);
                if self.left == 0 {
                    return Vec::new();
                }
                *least = live;
            }
        }
        tilings
    }

    /// Adds tilings that lower the steps above `limit` in a buffer, apart from each other.
    fn add_tilings(
        &mut self,
        facts: &DraftFacts<'_>,
        (buffer, limit): (BufferIndex, Bytes),
        tilings: &mut Vec<RegionTiling>,
    ) -> Result<(), Stuck> {
        let profile = &facts.profiles[buffer as usize].live;
        let mut above: Vec<Step> =
            (0..).zip(profile).filter(|(_, live)| **live > limit).map(|(step, _)| step).collect();
        above.sort_unstable_by_key(|&step| (std::cmp::Reverse(profile[step as usize]), step));
        // The profile of a buffer without blocks has no steps.
        let mut covered = vec![false; facts.draft.graph.nodes().len().max(profile.len())];
        for tiled in &*tilings {
            cover(&mut covered, tiled);
        }
        let mut latest: Option<(Aim, Candidate)> = None;
        for step in above {
            let stuck = Stuck { live: profile[step as usize] };
            if self.left == 0 {
                return Err(stuck);
            }
            if covered[step as usize] {
                continue;
            }
            let aim = Aim { buffer, step, target: limit, threads: self.threads };
            let mut work = 0;
            let again = latest.as_ref().and_then(|(found_for, found)| found.again(facts, *found_for, aim, &mut work));
            let candidate = again.or_else(|| best(facts, aim, &mut work));
            self.left = self.left.saturating_sub(work);
            let Some(candidate) = candidate else { return Err(stuck) };
            let tiled = &candidate.tiled;
            let steps = tiled.place.steps.start as usize..tiled.place.steps.end as usize;
            if !covered[steps].contains(&true) {
                cover(&mut covered, tiled);
                tilings.push(tiled.clone());
            }
            latest = Some((aim, candidate));
        }
        Ok(())
    }
}

/// A step cannot be lowered, or no work is left.
struct Stuck {
    /// The live bytes of the step.
    live: Bytes,
}

fn cover(covered: &mut [bool], tiled: &RegionTiling) {
    covered[tiled.place.steps.start as usize..tiled.place.steps.end as usize].fill(true);
}

/// Returns, by buffer, the live bytes that leave all buffers together within the target.
fn limits(facts: &DraftFacts<'_>, target: Bytes) -> Vec<(BufferIndex, Bytes)> {
    let sum = facts.peak();
    (0..).zip(facts.peaks()).map(|(buffer, peak)| (buffer, target.saturating_sub(sum - peak))).collect()
}

fn made(facts: &DraftFacts<'_>, tiled: &RegionTiling) -> TiledTensor {
    let largest =
        tiled.region.internal.iter().copied().max_by_key(|&id| (facts.model().size(id), std::cmp::Reverse(id)));
    let tensor = largest.unwrap_or_default();
    let dimension = tiled.region.member(tensor).map_or(0, |member| member.dimension);
    let whole = facts.draft.known[tensor as usize].nbytes;
    let share =
        u128::from(whole) * u128::from(tiled.units.unsigned_abs()) / u128::from(tiled.grid.units.unsigned_abs());
    TiledTensor {
        tensor: facts.draft.known[tensor as usize].origin.tensor,
        dimension,
        tiles: u32::try_from(tiled.tiles()).unwrap_or(u32::MAX),
        bytes: [whole, Bytes::try_from(share).unwrap_or(whole)],
    }
}
