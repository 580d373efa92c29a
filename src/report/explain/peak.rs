//! The worst step of a buffer, and who is alive there.

use crate::graph::TensorId;
use crate::placement::{BlockId, Bytes, Problem, Step, memory_profile};

use super::case::Case;
use super::{AliveBlock, AliveTensor, Named, Peak};

impl Case<'_> {
    /// The worst step of a buffer; nothing when the buffer holds nothing.
    pub fn peak(&self, buffer: usize) -> Option<Peak> {
        let loads = memory_profile(&self.subject.plan.problems[buffer]);
        let (step, bytes) = worst(&loads).filter(|&(_, bytes)| bytes > 0)?;
        let alive =
            self.blocks_at(buffer, step).into_iter().map(|(block, bytes)| self.alive_block(buffer, block, bytes, step));
        Some(Peak { node: self.node(step), bytes, as_high: runs(&loads, bytes, step), alive: alive.collect() })
    }

    /// The blocks that are alive at a step, and the bytes that each holds then; the largest first.
    pub fn blocks_at(&self, buffer: usize, step: Step) -> Vec<(BlockId, Bytes)> {
        let problem = &self.subject.plan.problems[buffer];
        let alive = (0..).zip(problem.blocks()).filter(|(_, block)| (block.first_step..block.end_step).contains(&step));
        let held = held(problem, step);
        let mut blocks: Vec<_> = alive.map(|(id, _)| (id, held[id as usize])).filter(|&(_, bytes)| bytes > 0).collect();
        blocks.sort_by_key(|&(id, bytes)| (std::cmp::Reverse(bytes), id));
        blocks
    }

    /// The tensors that live in a block at a step, in the order in which they are made.
    pub fn tensors_at(&self, buffer: usize, block: BlockId, step: Step) -> Vec<TensorId> {
        let mut members: Vec<TensorId> = self.members.of_block(buffer, block).to_vec();
        members.sort_by_key(|&id| self.uses.made(id));
        let alive: Vec<TensorId> = members.iter().copied().filter(|&id| self.uses.is_alive(id, step)).collect();
        if !alive.is_empty() {
            return alive;
        }
        // Its memory outlasts its last reader, who may still be at work.
        let is_made = |&id: &TensorId| self.uses.made(id).is_none_or(|made| made <= step);
        members.into_iter().rfind(is_made).into_iter().collect()
    }

    fn alive_block(&self, buffer: usize, block: BlockId, bytes: Bytes, step: Step) -> AliveBlock {
        let tensors = self.tensors_at(buffer, block, step);
        let room_for = self.room_for(buffer, block, step);
        AliveBlock { bytes, tensors: tensors.into_iter().map(|id| self.alive_tensor(id, buffer)).collect(), room_for }
    }

    fn alive_tensor(&self, id: TensorId, buffer: usize) -> AliveTensor {
        let uses = &self.uses;
        AliveTensor {
            tensor: self.named(id),
            bytes: self.allocation(id, buffer).map_or(0, |allocation| self.bytes(allocation)),
            made: uses.made(id).map(|step| self.node(step)),
            last_read: uses.last(id).map(|step| self.node(step)),
            kept: uses.kept[id as usize],
        }
    }

    /// A CONCAT that is not computed yet, though operands of it lie in its memory.
    fn room_for(&self, buffer: usize, block: BlockId, step: Step) -> Option<Named> {
        let is_operand_inside = |&(_, id): &(Step, TensorId)| {
            let graph = &self.subject.snapshot.graph;
            let sources = graph.sources(id).iter();
            self.subject.plan.allocations[id as usize].is_some_and(|allocation| allocation.in_place_of.is_none())
                && sources
                    .filter_map(|&source| self.allocation(source, buffer))
                    .any(|allocation| allocation.block == block)
        };
        let members = self.members.of_block(buffer, block).iter();
        let later = members.filter_map(|&id| Some((self.uses.made(id).filter(|&made| made > step)?, id)));
        later.filter(is_operand_inside).min().map(|(_, id)| self.named(id))
    }
}

/// The first step with the most bytes.
pub fn worst(loads: &[Bytes]) -> Option<(Step, Bytes)> {
    let most = loads.iter().copied().max()?;
    (0..).zip(loads).find(|(_, load)| **load == most).map(|(step, _)| (step, most))
}

/// By block: the bytes that it holds at a step, if it is alive then.
fn held(problem: &Problem, step: Step) -> Vec<Bytes> {
    let mut held: Vec<Bytes> = problem.blocks().iter().map(|block| block.size).collect();
    for shrink in problem.shrinks().iter().filter(|shrink| shrink.step <= step) {
        held[shrink.block as usize] = shrink.size;
    }
    held
}

/// The runs of steps with so many bytes, without the step that is known.
fn runs(loads: &[Bytes], bytes: Bytes, known: Step) -> Vec<(Step, Step)> {
    let mut runs: Vec<(Step, Step)> = Vec::new();
    for (step, _) in (0..).zip(loads).filter(|&(step, load)| *load == bytes && step != known) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == step => *last = step,
            _ => runs.push((step, step)),
        }
    }
    runs
}
