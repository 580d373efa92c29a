//! The search for cuts with which the memory profile fits a target.

use crate::graph::{BufferIndex, BufferSpec, Sizes};
use crate::placement::{Bytes, Step};

use super::candidates::{Aim, Candidate, best};
use super::draft::Draft;
use super::facts::Facts;
use super::rewrite::{RegionCut, rewrite};

/// How often the graph is cut again for one target: parts of parts may be cut.
const ROUNDS: usize = 12;

/// A graph that was cut for a target.
pub struct Found {
    /// The cut graph; `None` if nothing was cut.
    pub draft: Option<Draft>,
    /// The largest sum of live bytes, over all buffers.
    pub peak: Bytes,
    /// Whether cuts made it larger: their estimates were wrong.
    pub is_misled: bool,
    /// The cuts, each with the graph before it.
    pub cuts: Vec<CutMade>,
}

/// A region that was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutMade {
    /// The tensor of the given graph that was largest in the region, and is computed in parts.
    pub tensor: crate::graph::TensorId,
    /// The dimension that was cut.
    pub dimension: usize,
    /// How many parts there are.
    pub parts: u32,
    /// Bytes of the whole tensor, and of its largest part.
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
    /// Cuts a graph until its live bytes are within the goal, or nothing lowers them. `None` when sizes overflow.
    pub fn cut_for(&mut self, given: &Facts<'_>, goal: Goal) -> Option<Found> {
        let mut found = Found { draft: None, peak: given.peak(), is_misled: false, cuts: Vec::new() };
        let mut least = self.least.clone();
        for round in 0..=ROUNDS {
            let own = match &found.draft {
                Some(draft) => Some(Facts::of(draft, self.buffers, self.sizes)?),
                None => None,
            };
            let facts = own.as_ref().unwrap_or(given);
            found.is_misled |= facts.peak() > found.peak;
            found.peak = facts.peak();
            self.left = self.left.saturating_sub(facts.draft.graph.nodes().len() as u64);
            if round == ROUNDS {
                break;
            }
            let cuts = match goal {
                Goal::Target(target) => self.cuts_for(facts, target, found.draft.is_none()),
                Goal::Least => self.least_cuts(facts, &mut least),
            };
            if goal == Goal::Least && found.draft.is_none() {
                self.least.clone_from(&least);
            }
            if cuts.is_empty() {
                break;
            }
            let Some(draft) = rewrite(facts, &cuts) else { break };
            found.cuts.extend(cuts.iter().map(|cut| made(facts, cut)));
            drop(own);
            found.draft = Some(draft);
        }
        Some(found)
    }

    /// Returns cuts, apart from each other, that lower the steps above the target; none if a step cannot be lowered.
    fn cuts_for(&mut self, facts: &Facts<'_>, target: Bytes, is_given: bool) -> Vec<RegionCut> {
        let mut cuts = Vec::new();
        for (buffer, limit) in limits(facts, target) {
            if is_given && self.least[buffer as usize] > limit {
                return Vec::new();
            }
            if let Err(Stuck { live }) = self.add_cuts(facts, (buffer, limit), &mut cuts) {
                if is_given && self.left > 0 {
                    self.least[buffer as usize] = live;
                }
                return Vec::new();
            }
        }
        cuts
    }

    /// Returns cuts, apart from each other, that lower the steps above the least live bytes, by buffer. These are
    /// raised to those of steps that cannot be lowered.
    fn least_cuts(&mut self, facts: &Facts<'_>, least: &mut [Bytes]) -> Vec<RegionCut> {
        let mut cuts = Vec::new();
        for (buffer, least) in (0..).zip(least) {
            let known = cuts.len();
            while let Err(Stuck { live }) = self.add_cuts(facts, (buffer, *least), &mut cuts) {
                cuts.truncate(known);
                if self.left == 0 {
                    return Vec::new();
                }
                *least = live;
            }
        }
        cuts
    }

    /// Adds cuts that lower the steps above `limit` in a buffer, apart from each other.
    fn add_cuts(
        &mut self,
        facts: &Facts<'_>,
        (buffer, limit): (BufferIndex, Bytes),
        cuts: &mut Vec<RegionCut>,
    ) -> Result<(), Stuck> {
        let profile = &facts.profiles[buffer as usize];
        let mut above: Vec<Step> =
            (0..).zip(profile).filter(|(_, live)| **live > limit).map(|(step, _)| step).collect();
        above.sort_unstable_by_key(|&step| (std::cmp::Reverse(profile[step as usize]), step));
        let mut covered = vec![false; profile.len()];
        for cut in &*cuts {
            cover(&mut covered, cut);
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
            let cut = &candidate.cut;
            let steps = cut.place.steps.start as usize..cut.place.steps.end as usize;
            if !covered[steps].contains(&true) {
                cover(&mut covered, cut);
                cuts.push(cut.clone());
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

fn cover(covered: &mut [bool], cut: &RegionCut) {
    covered[cut.place.steps.start as usize..cut.place.steps.end as usize].fill(true);
}

/// Returns, by buffer, the live bytes that leave all buffers together within the target.
fn limits(facts: &Facts<'_>, target: Bytes) -> Vec<(BufferIndex, Bytes)> {
    let peaks: Vec<Bytes> = facts.profiles.iter().map(|profile| profile.iter().copied().max().unwrap_or(0)).collect();
    let sum = peaks.iter().copied().fold(0, Bytes::saturating_add);
    let limits = (0..).zip(&peaks).map(|(buffer, &peak)| (buffer, target.saturating_sub(sum - peak)));
    limits.collect()
}

fn made(facts: &Facts<'_>, cut: &RegionCut) -> CutMade {
    let largest =
        cut.region.internal.iter().copied().max_by_key(|&id| (facts.sizes[id as usize], std::cmp::Reverse(id)));
    let tensor = largest.unwrap_or_default();
    let dimension = cut.region.member(tensor).map_or(0, |member| member.dimension);
    let whole = facts.draft.nbytes[tensor as usize];
    let share = u128::from(whole) * u128::from(cut.units.unsigned_abs()) / u128::from(cut.grid.units.unsigned_abs());
    CutMade {
        tensor: facts.draft.origins[tensor as usize].tensor,
        dimension,
        parts: u32::try_from(cut.parts()).unwrap_or(u32::MAX),
        bytes: [whole, Bytes::try_from(share).unwrap_or(whole)],
    }
}
