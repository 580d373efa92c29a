//! Whose value each byte holds.

use std::collections::BTreeMap;

use crate::graph::TensorId;
use crate::placement::Offset;

use super::Region;

/// Whose value the bytes of each space hold: by start, the end and the owner; what is in no range holds nothing.
#[derive(Debug, Default)]
pub struct Memory(BTreeMap<Start, End>);

/// The space and the first byte of a range.
type Start = (u32, Offset);

/// Where a range ends, and whose value it holds.
type End = (Offset, TensorId);

/// Bytes that do not hold the value that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stranger {
    /// Whose value, if any, is there.
    pub found: Option<TensorId>,
    /// The bytes.
    pub bytes: Region,
}

impl Memory {
    /// Says that `region` holds the value of `owner`.
    pub fn write(&mut self, region: Region, owner: TensorId) {
        self.clear(region);
        if region.start < region.end {
            self.0.insert((region.space, region.start), (region.end, owner));
        }
    }

    /// Says that `region` holds nothing.
    pub fn clear(&mut self, region: Region) {
        let overlapping: Vec<_> = self.ranges_in(region).collect();
        for (range, owner) in overlapping {
            self.0.remove(&(range.space, range.start));
            if range.start < region.start {
                self.0.insert((range.space, range.start), (region.start, owner));
            }
            if range.end > region.end {
                self.0.insert((range.space, region.end), (range.end, owner));
            }
        }
    }

    /// The first value in `region`, and which bytes of it it has.
    pub fn anyone_in(&self, region: Region) -> Option<(TensorId, Region)> {
        self.ranges_in(region).next().map(|(range, owner)| (owner, range.common(region)))
    }

    /// The bytes of `region` that hold the value of `owner`.
    pub fn of_owner_in(&self, region: Region, owner: TensorId) -> impl Iterator<Item = Region> {
        let is_owned = move |&(_, found): &(Region, TensorId)| found == owner;
        self.ranges_in(region).filter(is_owned).map(move |(range, _)| range.common(region))
    }

    /// The first bytes of `region` that do not hold `owner`'s value, but another tensor's or none.
    pub fn stranger_in(&self, region: Region, owner: TensorId) -> Option<Stranger> {
        let mut at = region.start;
        for (range, found) in self.ranges_in(region) {
            if range.start > at {
                return Some(Stranger { found: None, bytes: Region { start: at, end: range.start, ..region } });
            }
            if found != owner {
                return Some(Stranger { found: Some(found), bytes: range.common(region) });
            }
            at = range.end;
        }
        (at < region.end).then_some(Stranger { found: None, bytes: Region { start: at, ..region } })
    }

    /// The ranges that have a byte in common with `region`, whole, in order.
    fn ranges_in(&self, region: Region) -> impl Iterator<Item = (Region, TensorId)> {
        let Region { space, start, end } = region;
        let before = self.0.range((space, 0)..=(space, start)).next_back().map(|((_, start), _)| *start);
        let from = before.unwrap_or(start).min(end);
        let all = self.0.range((space, from)..(space, end.max(from)));
        let ranges = all.map(move |(&(space, start), &(end, owner))| (Region { space, start, end }, owner));
        ranges.filter(move |(range, _)| range.meets(region))
    }
}
