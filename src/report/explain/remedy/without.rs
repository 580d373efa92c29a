//! The peak that there would be without a block.

use crate::placement::{BlockId, Bytes, Step, memory_profile};

use crate::report::explain::case::Case;
use crate::report::explain::named::Node;
use crate::report::explain::trial::first_peak;

impl Case<'_> {
    /// Returns the live bytes at the peak of a buffer if a block was not there, and the step of that peak.
    pub fn peak_without(&self, buffer: usize, block: BlockId) -> (Bytes, Node) {
        let problem = &self.planned.plan.problems[buffer];
        let mut loads = memory_profile(problem);
        let range = problem.blocks()[block as usize];
        let mut shrinks = problem.shrinks().iter().filter(|shrink| shrink.block == block).peekable();
        let mut held = range.size;
        for step in range.first_step..range.end_step {
            while let Some(shrink) = shrinks.next_if(|shrink| shrink.step <= step) {
                held = shrink.size;
            }
            loads[step as usize] -= held;
        }
        let (step, bytes): (Step, Bytes) = first_peak(&loads).unwrap_or((0, 0));
        (bytes, self.node(step))
    }
}
