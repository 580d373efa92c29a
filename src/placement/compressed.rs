//! Live ranges in compressed steps.

use super::{Block, Problem, Step};

/// A step, as the number of blocks that start before it.
pub type CompressedStep = u32;

/// The live ranges of all blocks, in compressed steps.
///
/// Two compressed ranges overlap exactly if the live ranges do, and the largest compressed step is below the number of
/// blocks however many steps there are.
#[derive(Debug)]
pub struct CompressedRanges {
    /// By block.
    pub starts: Vec<CompressedStep>,
    /// By block; half-open, after its start.
    pub ends: Vec<CompressedStep>,
}

impl CompressedRanges {
    /// Compresses the live ranges of the blocks of `problem`.
    pub fn of(problem: &Problem) -> Self {
        let blocks = problem.blocks();
        let mut starts: Vec<CompressedStep> = Vec::with_capacity(blocks.len());
        for (id, block) in (0..).zip(blocks) {
            let equal = starts.last().copied().filter(|&last| blocks[last as usize].first_step == block.first_step);
            starts.push(equal.unwrap_or(id));
        }
        let ends = (0..).zip(blocks).map(|(id, block)| starts_before(blocks, id, block.end_step)).collect();
        Self { starts, ends }
    }

    /// Returns the largest end.
    pub fn last_end(&self) -> CompressedStep {
        self.ends.iter().copied().max().unwrap_or(0)
    }
}

/// Returns how many blocks start before `step`, which is after the start of the block `from`. Most blocks end soon
/// after they start, so the search gallops from there.
fn starts_before(blocks: &[Block], from: CompressedStep, step: Step) -> CompressedStep {
    let rest = &blocks[from as usize..];
    let mut reach = 1;
    while rest.get(reach).is_some_and(|block| block.first_step < step) {
        reach *= 2;
    }
    let known = reach / 2;
    let unknown = &rest[known..reach.min(rest.len())];
    let count = known + unknown.partition_point(|block| block.first_step < step);
    from + CompressedStep::try_from(count).unwrap_or(CompressedStep::MAX)
}
