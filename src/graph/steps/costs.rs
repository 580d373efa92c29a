//! The memory of each part that could be cut.

use std::ops::Range;

use crate::placement::{Bytes, Step};

use super::owners::Owner;
use super::part::{PartPlan, PartPlanner};
use super::profile::GrowingProfile;

/// The bytes of a part.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Bytes of its compute buffer and of what crosses meanwhile.
    pub total: Bytes,
    /// Bytes of its compute buffer.
    pub compute: Bytes,
    /// True if the part was planned; otherwise the compute buffer is the peak of its live bytes.
    pub is_exact: bool,
}

/// The bytes of all parts between a few boundaries. A boundary is the position of a node that may be the first of a
/// part; the first is 0, and the last is the number of nodes.
#[derive(Debug)]
pub struct Costs {
    boundaries: Vec<Step>,
    /// By the boundary at which a part begins, then the one at which it ends.
    costs: Vec<Cost>,
    /// By boundary: bytes that cross it.
    crossing: Vec<Bytes>,
}

impl Costs {
    /// Estimates all parts between `boundaries`.
    pub fn estimate(planner: &mut PartPlanner<'_>, boundaries: Vec<Step>) -> Self {
        let count = boundaries.len();
        let sources = planner.in_place_sources();
        let mut estimator = Estimator::new(planner, &sources);
        let mut costs = vec![Cost::default(); count * count];
        for (from, &start) in boundaries.iter().enumerate() {
            estimator.estimate(start, &boundaries[from + 1..], &mut costs[from * count + from + 1..]);
        }
        let by_step = crossing_bytes(planner);
        let crossing = boundaries.iter().map(|&boundary| by_step[boundary as usize]).collect();
        Self { boundaries, costs, crossing }
    }

    /// Returns the number of boundaries.
    pub fn boundaries(&self) -> usize {
        self.boundaries.len()
    }

    /// Returns the nodes between two boundaries.
    pub fn nodes(&self, from: usize, to: usize) -> Range<Step> {
        self.boundaries[from]..self.boundaries[to]
    }

    /// Returns the bytes of the part between two boundaries.
    pub fn part(&self, from: usize, to: usize) -> Cost {
        self.costs[from * self.boundaries.len() + to]
    }

    /// Returns the bytes that cross a boundary.
    pub fn crossing(&self, boundary: usize) -> Bytes {
        self.crossing[boundary]
    }

    /// Records the plan of a part.
    pub fn set_planned(&mut self, from: usize, to: usize, plan: &PartPlan) {
        let count = self.boundaries.len();
        self.costs[from * count + to] = Cost { total: plan.total(), compute: plan.compute(), is_exact: true };
    }
}

/// Returns, by position of a node, the bytes that a cut before it would let cross; the last is behind the last node.
pub fn crossing_bytes(planner: &PartPlanner<'_>) -> Vec<Bytes> {
    let mut changes = vec![(0, 0); planner.graph().nodes().len() + 1];
    for owner in planner.owners().iter().filter(|owner| !owner.is_kept) {
        changes[owner.first as usize + 1].0 += owner.size;
        changes[owner.last as usize + 1].1 += owner.size;
    }
    let sum = |live: &mut Bytes, (begin, end): (Bytes, Bytes)| {
        *live = *live + begin - end;
        Some(*live)
    };
    changes.into_iter().scan(0, sum).collect()
}

/// An owner, reduced to the fields needed here.
struct LiveOwner {
    first: Step,
    last: Step,
    size: Bytes,
    /// The first step at which it has its own bytes: the one after its def, if it is computed in place.
    own: Step,
}

struct Estimator {
    /// In the order of their last nodes.
    by_last: Vec<LiveOwner>,
    /// By position of a node: bytes of all owners that begin before it.
    begun: Vec<Bytes>,
    /// By position of a node: bytes of all owners that end before it.
    ended: Vec<Bytes>,
    profile: GrowingProfile,
}

impl Estimator {
    fn new(planner: &PartPlanner<'_>, sources: &[Option<u32>]) -> Self {
        let nodes = planner.graph().nodes().len();
        let range = |(owner, source): (&Owner, &Option<u32>)| {
            let &Owner { first, last, size, .. } = owner;
            LiveOwner { first, last, size, own: first + u32::from(source.is_some()) }
        };
        let owners = planner.owners().iter().zip(sources).filter(|(owner, _)| !owner.is_kept);
        let mut by_last: Vec<LiveOwner> = owners.map(range).collect();
        by_last.sort_by_key(|owner| owner.last);
        let sums = |step: fn(&LiveOwner) -> Step| {
            let mut bytes = vec![0; nodes + 1];
            by_last.iter().for_each(|owner| bytes[step(owner) as usize + 1] += owner.size);
            bytes
                .iter()
                .scan(0, |sum, bytes| {
                    *sum += bytes;
                    Some(*sum)
                })
                .collect::<Vec<Bytes>>()
        };
        let (begun, ended) = (sums(|owner| owner.first), sums(|owner| owner.last));
        Self { begun, ended, by_last, profile: GrowingProfile::new(nodes) }
    }

    /// Estimates the parts from `start` to each of `ends`, which ascend.
    fn estimate(&mut self, start: Step, ends: &[Step], costs: &mut [Cost]) {
        self.profile.clear();
        let mut inside: Bytes = 0;
        let first = self.by_last.partition_point(|owner| owner.last < start);
        let mut next = self.by_last[first..].iter().peekable();
        for (&end, cost) in ends.iter().zip(costs) {
            while let Some(owner) = next.next_if(|owner| owner.last < end) {
                if owner.first >= start {
                    inside += owner.size;
                    self.profile.add(owner.own as usize..owner.last as usize + 1, owner.size);
                }
            }
            let touched = self.begun[end as usize] - self.ended[start as usize];
            cost.compute = self.profile.peak();
            cost.total = (touched - inside).saturating_add(cost.compute);
        }
    }
}
