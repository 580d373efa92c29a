//! Where the tiles of a region run among the other nodes.

use std::ops::Range;

use crate::placement::Step;

use super::facts::Facts;
use super::region::Region;

/// The steps from the first to the last node of a region; the other nodes there run before all tiles or after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub steps: Range<Step>,
    /// Steps that run before the tiles.
    pub before: Vec<Step>,
    /// Steps that run after the tiles; some may be views of outputs that members read too.
    pub after: Vec<Step>,
}

impl Place {
    /// Returns the place of a region. `None` if a node must run between its nodes.
    pub fn of(facts: &Facts<'_>, region: &Region) -> Option<Self> {
        let steps = region.members.iter().map(|member| facts.steps[member.tensor as usize]);
        let steps: Vec<Step> = steps.collect::<Option<_>>()?;
        let (first, last) = (*steps.first()?, *steps.last()?);
        let is_member = |step: Step| steps.binary_search(&step).is_ok();
        let (mut before, mut after) = (Vec::new(), Vec::new());
        // By step from the first: whether it depends on a node of the region.
        let mut depends = vec![false; (last - first + 1) as usize];
        for step in first..=last {
            let relies = |earlier: Step, is_it: &dyn Fn(Step) -> bool| earlier >= first && is_it(earlier);
            let on_later = |earlier: Step| !is_member(earlier) && depends[(earlier - first) as usize];
            let on_member = |earlier: Step| is_member(earlier) || on_later(earlier);
            let earlier = facts.hazards.before(step).iter().copied();
            if is_member(step) {
                if earlier.clone().any(|earlier| relies(earlier, &on_later)) {
                    return None;
                }
            } else if earlier.clone().any(|earlier| relies(earlier, &on_member)) {
                depends[(step - first) as usize] = true;
                after.push(step);
            } else {
                before.push(step);
            }
        }
        Some(Self { steps: first..last + 1, before, after })
    }
}
