//! Who touches which bytes of the memory that copies write to, and when.

use std::ops::Range;

use crate::graph::TensorId;
use crate::placement::{Bytes, Step};

/// Bytes of one piece of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// A tensor that stands for the memory: all that share some have the same.
    pub memory: TensorId,
    /// From the start of that memory.
    pub bytes: Range<Bytes>,
}

impl Region {
    /// Have the two bytes in common?
    pub fn meets(&self, other: &Self) -> bool {
        self.memory == other.memory && overlap(&self.bytes, &other.bytes)
    }
}

fn overlap(a: &Range<Bytes>, b: &Range<Bytes>) -> bool {
    a.start.max(b.start) < a.end.min(b.end)
}

/// One node that reads or writes bytes.
#[derive(Clone, Debug)]
struct Touch {
    step: Step,
    bytes: Range<Bytes>,
    /// One more than the place of that before it in the same memory; 0: there is none.
    before: u32,
}

/// All touches of the memory that somebody asks about. Questions come from the last step to the first, and each forgets what is
/// later: so all of them together take as long as there are touches.
///
/// Copies that were removed keep their places here. Their producers write earlier now, but never before somebody else who
/// touches the same bytes; so whoever would meet one of them meets the copy.
#[derive(Debug)]
pub struct Touches {
    touches: Vec<Touch>,
    /// By memory: one more than the place of the latest.
    latest: Vec<u32>,
    is_asked_about: Vec<bool>,
}

impl Touches {
    /// Of so many tensors.
    pub fn new(tensors: usize) -> Self {
        Self { touches: Vec::new(), latest: vec![0; tensors], is_asked_about: vec![false; tensors] }
    }

    /// Somebody will ask about this memory; of others nothing is kept.
    pub fn ask_about(&mut self, memory: TensorId) {
        self.is_asked_about[memory as usize] = true;
    }

    /// A node that runs later than all others so far.
    pub fn push(&mut self, step: Step, region: Region) {
        if self.is_asked_about[region.memory as usize] && !region.bytes.is_empty() {
            let new = self.next();
            let before = std::mem::replace(&mut self.latest[region.memory as usize], new);
            self.touches.push(Touch { step, bytes: region.bytes, before });
        }
    }

    fn next(&self) -> u32 {
        u32::try_from(self.touches.len() + 1).expect("fewer than 2^32 touches")
    }

    /// Forgets what happens in memory from `step` on.
    fn forget_from(&mut self, memory: TensorId, step: Step) {
        let latest = &mut self.latest[memory as usize];
        while let Some(touch) = at(&self.touches, *latest).filter(|touch| touch.step >= step) {
            *latest = touch.before;
        }
    }

    /// Does anybody touch bytes of `region` in `steps`? What comes after is forgotten. `own` is the step that is left out.
    pub fn any(&mut self, region: &Region, steps: Range<Step>, own: Step) -> bool {
        self.forget_from(region.memory, steps.end);
        let mut next = self.latest[region.memory as usize];
        while let Some(touch) = at(&self.touches, next).filter(|touch| touch.step >= steps.start) {
            if touch.step != own && overlap(&touch.bytes, &region.bytes) {
                return true;
            }
            next = touch.before;
        }
        false
    }
}

fn at(touches: &[Touch], place: u32) -> Option<&Touch> {
    touches.get((place as usize).checked_sub(1)?)
}
