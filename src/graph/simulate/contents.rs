//! Which tensor's value each byte holds.

use std::collections::BTreeMap;

use crate::graph::{Region, TensorId};
use crate::placement::Offset;

/// The values that memory holds, as disjoint regions with the tensor of each; bytes in no region hold nothing.
#[derive(Debug, Default)]
pub struct Contents(BTreeMap<Start, End>);

/// The space and the first byte of a region.
type Start = (u32, Offset);

/// The end of a region, and the tensor whose value it holds.
type End = (Offset, TensorId);

/// Bytes that do not hold the expected value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The tensor whose value is there, if any.
    pub found: Option<TensorId>,
    /// The bytes.
    pub bytes: Region,
}

impl Contents {
    /// Sets `region` to the value of `owner`.
    pub fn write(&mut self, region: Region, owner: TensorId) {
        self.clear(region);
        if region.start < region.end {
            self.0.insert((region.space, region.start), (region.end, owner));
        }
    }

    /// Empties `region`.
    pub fn clear(&mut self, region: Region) {
        let overlapping: Vec<_> = self.regions_in(region).collect();
        for (stored, owner) in overlapping {
            self.0.remove(&(stored.space, stored.start));
            if stored.start < region.start {
                self.0.insert((stored.space, stored.start), (region.start, owner));
            }
            if stored.end > region.end {
                self.0.insert((stored.space, region.end), (stored.end, owner));
            }
        }
    }

    /// Returns the first value in `region`, and its bytes there.
    pub fn first_in(&self, region: Region) -> Option<(TensorId, Region)> {
        self.regions_in(region).next().map(|(stored, owner)| (owner, stored.common(region)))
    }

    /// Returns the bytes of `region` that hold the value of `owner`.
    pub fn of_owner_in(&self, region: Region, owner: TensorId) -> impl Iterator<Item = Region> {
        let is_owned = move |&(_, found): &(Region, TensorId)| found == owner;
        self.regions_in(region).filter(is_owned).map(move |(stored, _)| stored.common(region))
    }

    /// Returns the first bytes of `region` that hold the value of another tensor than `owner`, or none.
    pub fn mismatch_in(&self, region: Region, owner: TensorId) -> Option<Mismatch> {
        let mut at = region.start;
        for (stored, found) in self.regions_in(region) {
            if stored.start > at {
                return Some(Mismatch { found: None, bytes: Region { start: at, end: stored.start, ..region } });
            }
            if found != owner {
                return Some(Mismatch { found: Some(found), bytes: stored.common(region) });
            }
            at = stored.end;
        }
        (at < region.end).then_some(Mismatch { found: None, bytes: Region { start: at, ..region } })
    }

    /// Returns the stored regions that share bytes with `region`, whole, in order.
    fn regions_in(&self, region: Region) -> impl Iterator<Item = (Region, TensorId)> {
        let Region { space, start, end } = region;
        let before = self.0.range((space, 0)..=(space, start)).next_back().map(|((_, start), _)| *start);
        let from = before.unwrap_or(start).min(end);
        let all = self.0.range((space, from)..(space, end.max(from)));
        let regions = all.map(move |(&(space, start), &(end, owner))| (Region { space, start, end }, owner));
        regions.filter(move |(stored, _)| stored.shares_bytes(region))
    }
}
