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
    pub draft: Draft,
    /// The largest sum of live bytes, over all buffers.
    pub peak: Bytes,
    /// What was cut, with what it was cut from.
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

/// The search, with its work limit.
pub struct Search<'a> {
    pub buffers: &'a [BufferSpec],
    pub sizes: &'a mut dyn Sizes,
    pub threads: u32,
    /// Nodes that may still be looked at.
    pub left: u64,
}

impl Search<'_> {
    /// Cuts the graph until its live bytes are within the target, or nothing lowers them. `None` when sizes overflow.
    pub fn cut_for(&mut self, given: &Draft, target: Bytes) -> Option<Found> {
        let mut found = Found { draft: given.clone(), peak: Bytes::MAX, cuts: Vec::new() };
        for _ in 0..ROUNDS {
            let facts = Facts::of(&found.draft, self.buffers, self.sizes)?;
            found.peak = facts.peak();
            self.left = self.left.saturating_sub(found.draft.graph.nodes().len() as u64);
            let cuts = self.cuts(&facts, target);
            if cuts.is_empty() {
                return Some(found);
            }
            let Some(draft) = rewrite(&facts, &cuts) else { return Some(found) };
            let made: Vec<CutMade> = cuts.iter().map(|cut| made(&facts, cut)).collect();
            drop(facts);
            found.draft = draft;
            found.cuts.extend(made);
        }
        let facts = Facts::of(&found.draft, self.buffers, self.sizes)?;
        found.peak = facts.peak();
        Some(found)
    }

    /// Returns cuts, apart from each other, that lower what is above the target; none if a step cannot be lowered.
    fn cuts(&mut self, facts: &Facts<'_>, target: Bytes) -> Vec<RegionCut> {
        let mut cuts: Vec<RegionCut> = Vec::new();
        for (buffer, limit) in limits(facts, target) {
            let profile = &facts.profiles[buffer as usize];
            let mut above: Vec<Step> =
                (0..).zip(profile).filter(|(_, live)| **live > limit).map(|(step, _)| step).collect();
            above.sort_by_key(|&step| (std::cmp::Reverse(profile[step as usize]), step));
            for step in above {
                if self.left == 0 {
                    return Vec::new();
                }
                if cuts.iter().any(|cut| cut.place.steps.contains(&step)) {
                    continue;
                }
                let aim = Aim { buffer, step, target: limit, threads: self.threads };
                let mut work = 0;
                let candidate = best(facts, aim, &mut work);
                self.left = self.left.saturating_sub(work);
                let Some(Candidate { cut, .. }) = candidate else { return Vec::new() };
                let is_apart = |other: &RegionCut| {
                    other.place.steps.end <= cut.place.steps.start || cut.place.steps.end <= other.place.steps.start
                };
                if cuts.iter().all(is_apart) {
                    cuts.push(cut);
                }
            }
        }
        cuts
    }
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
