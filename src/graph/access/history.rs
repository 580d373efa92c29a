//! Which steps access a region of memory.

use std::ops::Range;

use crate::graph::{Region, TensorId};
use crate::placement::Step;

/// One access of a node.
#[derive(Clone, Debug)]
struct Touch {
    step: Step,
    region: Region,
    /// The position plus one of the access before it in the same space; 0 where there is none.
    before: u32,
}

/// All accesses to the tracked address spaces; a space has the number of a tensor that represents its memory. Queries
/// come from the last step to the first, and each drops later accesses: all of them together take time linear in the
/// accesses.
///
/// The accesses of a copy that was removed stay recorded. Its producer now writes earlier, but never before another
/// node that accesses the same bytes; so a query that would find the producer finds the copy.
#[derive(Debug)]
pub struct History {
    touches: Vec<Touch>,
    /// By space: the position plus one of its latest access.
    latest: Vec<u32>,
    is_tracked: Vec<bool>,
}

impl History {
    /// Creates an empty history for a graph of `tensors`.
    pub fn new(tensors: usize) -> Self {
        Self { touches: Vec::new(), latest: vec![0; tensors], is_tracked: vec![false; tensors] }
    }

    /// Records accesses to a space from now on.
    pub fn track(&mut self, space: TensorId) {
        self.is_tracked[space as usize] = true;
    }

    /// Records an access at a step that is not before any recorded one.
    pub fn push(&mut self, step: Step, region: Region) {
        if self.is_tracked[region.space as usize] && region.size() > 0 {
            let new = self.next();
            let before = std::mem::replace(&mut self.latest[region.space as usize], new);
            self.touches.push(Touch { step, region, before });
        }
    }

    fn next(&self) -> u32 {
        u32::try_from(self.touches.len() + 1).expect("fewer than 2^32 accesses")
    }

    /// Drops the accesses to a space from `step` on.
    fn truncate(&mut self, space: TensorId, step: Step) {
        let latest = &mut self.latest[space as usize];
        while let Some(touch) = at(&self.touches, *latest).filter(|touch| touch.step >= step) {
            *latest = touch.before;
        }
    }

    /// Returns `true` if a step of `steps` other than `except` accesses bytes of `region`. Drops the accesses after
    /// `steps`.
    pub fn any(&mut self, region: Region, steps: Range<Step>, except: Step) -> bool {
        self.truncate(region.space, steps.end);
        let mut next = self.latest[region.space as usize];
        while let Some(touch) = at(&self.touches, next).filter(|touch| touch.step >= steps.start) {
            if touch.step != except && touch.region.shares_bytes(region) {
                return true;
            }
            next = touch.before;
        }
        false
    }
}

fn at(touches: &[Touch], position: u32) -> Option<&Touch> {
    touches.get((position as usize).checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use crate::placement::Bytes;
    use crate::testing::Random;

    use super::*;

    fn region(random: &mut Random) -> Region {
        let start = Bytes::from(random.below(20));
        Region { space: random.below(2), start, end: start + Bytes::from(random.below(6)) }
    }

    fn is_accessed(known: &[(Step, Region)], region: Region, steps: &Range<Step>, own: Step) -> bool {
        known.iter().any(|(step, other)| steps.contains(step) && *step != own && other.shares_bytes(region))
    }

    #[test]
    fn history_finds_the_accesses_that_a_scan_finds() {
        let mut random = Random::new(5);
        let mut results = [0, 0];
        for _ in 0..300 {
            let mut history = History::new(2);
            history.track(0);
            history.track(1);
            let mut known = Vec::new();
            for step in 0..60 {
                for _ in 0..random.below(3) {
                    let region = region(&mut random);
                    history.push(step, region);
                    known.push((step, region));
                }
            }
            for end in (1..60).rev() {
                let start = end - 1 - random.below(end.min(8));
                let (asked, own) = (region(&mut random), start + random.below(3));
                let found = history.any(asked, start..end, own);
                assert_eq!(found, is_accessed(&known, asked, &(start..end), own));
                results[usize::from(found)] += 1;
            }
        }
        assert!(results.iter().all(|&count| count > 1000), "{results:?}");
    }

    #[test]
    fn only_tracked_spaces_are_recorded() {
        let mut history = History::new(2);
        history.track(0);
        let region = |space| Region { space, start: 0, end: 8 };
        history.push(3, region(0));
        history.push(4, region(1));
        assert!(history.any(region(0), 0..9, 0) && !history.any(region(1), 0..9, 0));
    }
}
