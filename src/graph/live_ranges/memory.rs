//! Who has which block.

use crate::graph::plan::BufferSpec;
use crate::graph::{Allocation, BufferIndex, InactiveNode, Rules, TensorId};
use crate::placement::{Block, Bytes, Problem, Step, padded};

use super::donors::Donor;

/// The blocks so far, and who lives in them.
pub struct Memory {
    /// How many steps the graph takes.
    pub steps: Step,
    pub buffers: Vec<PoolBlocks>,
    /// By tensor.
    pub allocations: Vec<Option<Allocation>>,
    /// The inactive nodes so far that own memory, in the order of execution.
    pub inactive_owners: Vec<InactiveNode>,
    /// Is memory shared that ggml would not share?
    pub beyond_ggml: bool,
}

/// The blocks of one buffer.
pub struct PoolBlocks {
    pub problem: Problem,
    rules: Rules,
}

impl Memory {
    pub fn new(buffers: &[BufferSpec], tensors: usize, steps: Step) -> Self {
        // Most tensors are views, computed in place, or weights.
        let blocks = tensors / 3 / buffers.len().max(1);
        let problem = |buffer: &BufferSpec| Problem::with_capacity(buffer.alignment, buffer.max_chunk, blocks);
        let buffers =
            buffers.iter().map(|buffer| PoolBlocks { problem: problem(buffer), rules: buffer.rules }).collect();
        Self { steps, buffers, allocations: vec![None; tensors], inactive_owners: Vec::new(), beyond_ggml: false }
    }

    pub fn allocation(&self, tensor: TensorId) -> Option<&Allocation> {
        self.allocations[tensor as usize].as_ref()
    }

    pub fn rules(&self, buffer: BufferIndex) -> &Rules {
        &self.buffers[buffer as usize].rules
    }

    /// A block for `tensor` alone, from `first_step` until nobody reads it any more.
    #[inline(always)]
    pub fn add(&mut self, tensor: TensorId, buffer: BufferIndex, first_step: Step, last_read: Step, alloc_size: Bytes) {
        let PoolBlocks { problem, rules } = &mut self.buffers[buffer as usize];
        let size = padded(alloc_size, problem.alignment());
        let block = problem.add(Block { size, first_step, end_step: end_step(rules, last_read, self.steps) });
        self.allocations[tensor as usize] =
            Some(Allocation { buffer, block, within: 0, alloc_size, in_place_of: None });
    }

    /// Ends the block of an input that nobody reads, where the rules allow it: it is written before the first step, and
    /// may be overwritten in the second.
    pub fn end_unread(&mut self, input: TensorId) {
        let Some(allocation) = &self.allocations[input as usize] else { return };
        let PoolBlocks { problem, rules } = &mut self.buffers[allocation.buffer as usize];
        if rules.unread_inputs {
            problem.end(allocation.block, 1);
            self.beyond_ggml = true;
        }
    }

    /// Does a tensor of that size fit into the block of `allocation`?
    #[inline(always)]
    pub fn fits(&self, alloc_size: Bytes, allocation: &Allocation) -> bool {
        let alignment = self.buffers[allocation.buffer as usize].problem.alignment();
        alloc_size <= allocation.alloc_size || padded(alloc_size, alignment) <= padded(allocation.alloc_size, alignment)
    }

    /// Moves `node`, computed at `step`, into the block of `donor`, which gives back what the node does not fill, and
    /// lasts until nobody reads the node any more.
    #[inline(always)]
    pub fn take_over(&mut self, node: TensorId, donor: Donor, step: Step, last_read: Step) {
        let Donor { source, buffer, block, held, alloc_size, beyond_ggml } = donor;
        let PoolBlocks { problem, rules } = &mut self.buffers[buffer as usize];
        if alloc_size != held {
            let [held, size] = [held, alloc_size].map(|size| padded(size, problem.alignment()));
            if size < held {
                problem.shrink(block, step + 1, size);
            }
        }
        problem.end(block, end_step(rules, last_read, self.steps));
        self.allocations[node as usize] =
            Some(Allocation { buffer, block, within: 0, alloc_size, in_place_of: Some(source) });
        self.beyond_ggml |= beyond_ggml;
    }

    /// When the block of `allocation` is born.
    pub fn first_step(&self, allocation: &Allocation) -> Step {
        self.buffers[allocation.buffer as usize].problem.blocks()[allocation.block as usize].first_step
    }
}

/// When a block ends that is read for the last time then, in a graph of so many steps: with the graph where no step is the
/// last to read it.
#[inline]
fn end_step(rules: &Rules, last_read: Step, steps: Step) -> Step {
    // Backends fuse a normalization with the product behind it, which then reads what that one reads. In place both are
    // where their source is; where nothing is in place, the source stays a step longer.
    let longer = if rules.in_place { 1 } else { 2 };
    steps.min(steps.min(last_read) + longer)
}
