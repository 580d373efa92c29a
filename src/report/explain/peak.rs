//! The peak of a buffer, and the tensors that are live there.

use crate::graph::TensorId;
use crate::placement::{BlockId, Bytes, MemoryProfile, Problem, Step, peaks};

use super::case::Case;
use super::explanation::{LiveBlock, LiveTensor, Peak};
use super::named::{Named, Node};

impl Case<'_> {
    /// Returns the peak of a buffer; `None` if the buffer is empty.
    pub fn peak(&self, buffer: usize) -> Option<Peak> {
        let profile = MemoryProfile::of(&self.planned.plan.problems[buffer]);
        let (step, bytes) = profile.peak().filter(|&(_, bytes)| bytes > 0)?;
        // The first step of the first run is the one that is explained.
        let others =
            peaks(&profile.live).into_iter().map(|run| run.start.max(step + 1)..run.end).filter(|run| !run.is_empty());
        let as_high = others.map(|run| (run.start, run.end - 1)).collect();
        let live =
            self.blocks_at(buffer, step).into_iter().map(|(block, bytes)| self.live_block(buffer, block, bytes, step));
        Some(Peak { node: self.node(step), bytes, as_high, live: live.collect() })
    }

    /// Returns the blocks that are live at a step, and the bytes that each holds then; the largest first.
    pub fn blocks_at(&self, buffer: usize, step: Step) -> Vec<(BlockId, Bytes)> {
        let problem = &self.planned.plan.problems[buffer];
        let live = (0..).zip(problem.blocks()).filter(|(_, block)| (block.first_step..block.end_step).contains(&step));
        let held = held(problem, step);
        let mut blocks: Vec<_> = live.map(|(id, _)| (id, held[id as usize])).filter(|&(_, bytes)| bytes > 0).collect();
        blocks.sort_by_key(|&(id, bytes)| (std::cmp::Reverse(bytes), id));
        blocks
    }

    /// Returns the tensors that are live in a block at a step, in the order of their defs.
    pub fn tensors_at(&self, buffer: usize, block: BlockId, step: Step) -> Vec<TensorId> {
        let mut members: Vec<TensorId> = self.in_block[buffer].of(block).to_vec();
        members.sort_by_key(|&id| self.uses.def(id));
        let live: Vec<TensorId> = members.iter().copied().filter(|&id| self.uses.is_live(id, step)).collect();
        if !live.is_empty() {
            return live;
        }
        // The block may outlast the last use.
        let is_defined = |&id: &TensorId| self.uses.def(id).is_none_or(|def| def <= step);
        members.into_iter().rfind(is_defined).into_iter().collect()
    }

    fn live_block(&self, buffer: usize, block: BlockId, bytes: Bytes, step: Step) -> LiveBlock {
        let tensors = self.tensors_at(buffer, block, step);
        let room_for = self.room_for(buffer, block, step);
        LiveBlock { bytes, tensors: tensors.into_iter().map(|id| self.live_tensor(id, buffer)).collect(), room_for }
    }

    fn live_tensor(&self, id: TensorId, buffer: usize) -> LiveTensor {
        let uses = &self.uses;
        LiveTensor {
            tensor: self.named(id),
            shape: self.shape(id),
            sources: self.sources(id),
            bytes: self.allocation(id, buffer).map_or(0, |allocation| self.bytes(allocation)),
            def: uses.def(id).map(|step| self.node(step)),
            last_use: uses.last_use(id).map(|step| self.node(step)),
            kept: uses.kept[id as usize],
            retained_until: uses.retained_until[id as usize].map(|step| self.node(step)),
        }
    }

    /// Returns a CONCAT that is not computed yet, though operands of it lie in its memory.
    fn room_for(&self, buffer: usize, block: BlockId, step: Step) -> Option<Named> {
        let is_operand_inside = |&(_, id): &(Step, TensorId)| {
            let graph = &self.planned.snapshot.graph;
            let sources = graph.sources(id).iter();
            self.planned.plan.allocations[id as usize].is_some_and(|allocation| allocation.in_place_of.is_none())
                && sources
                    .filter_map(|&source| self.allocation(source, buffer))
                    .any(|allocation| allocation.block == block)
        };
        let members = self.in_block[buffer].of(block).iter();
        let later = members.filter_map(|&id| Some((self.uses.def(id).filter(|&def| def > step)?, id)));
        later.filter(is_operand_inside).min().map(|(_, id)| self.named(id))
    }

    /// Returns the live bytes at the peak of a buffer if a block was not there, and the step of that peak.
    pub fn peak_without(&self, buffer: usize, block: BlockId) -> (Bytes, Node) {
        let problem = &self.planned.plan.problems[buffer];
        let mut profile = MemoryProfile::of(problem);
        let range = problem.blocks()[block as usize];
        let mut shrinks = problem.shrinks().iter().filter(|shrink| shrink.block == block).peekable();
        let mut held = range.size;
        for step in range.first_step..range.end_step {
            while let Some(shrink) = shrinks.next_if(|shrink| shrink.step <= step) {
                held = shrink.size;
            }
            profile.live[step as usize] -= held;
        }
        let (step, bytes) = profile.peak().unwrap_or((0, 0));
        (bytes, self.node(step))
    }
}

/// Returns the bytes that each block holds at a step, if it is live then.
fn held(problem: &Problem, step: Step) -> Vec<Bytes> {
    let mut held: Vec<Bytes> = problem.blocks().iter().map(|block| block.size).collect();
    for shrink in problem.shrinks().iter().filter(|shrink| shrink.step <= step) {
        held[shrink.block as usize] = shrink.size;
    }
    held
}
