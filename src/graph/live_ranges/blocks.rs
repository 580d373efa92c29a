//! The blocks of all buffers, while a graph is walked.

use crate::graph::{BufferIndex, BufferSpec, Rules, TensorId};
use crate::placement::{Block, BlockId, BlockList, Bytes, Step, padded, refill};

use super::last_uses::Workspace;
use super::{Allocation, InactiveNode};

/// A source whose memory a node is computed in.
#[derive(Clone, Copy)]
pub struct InPlaceSource {
    /// The source; it may be a view of the memory.
    pub source: TensorId,
    /// The buffer of the memory.
    pub buffer: BufferIndex,
    /// The block of the memory.
    pub block: BlockId,
    /// Bytes that the buffer type requires for the owner of the memory.
    pub held: Bytes,
    /// Bytes that the buffer type requires for the node.
    pub alloc_size: Bytes,
    /// True if ggml would choose another source, or none.
    pub beyond_ggml: bool,
}

/// The blocks so far, and which tensor is in which.
pub struct Blocks {
    /// How many steps the graph takes.
    pub steps: Step,
    pub buffers: Vec<BufferBlocks>,
    /// By tensor.
    pub allocations: Vec<Option<Allocation>>,
    /// The inactive nodes so far that own memory, in the order of execution.
    pub inactive_owners: Vec<InactiveNode>,
    /// True if memory is reused where ggml would not reuse it.
    pub beyond_ggml: bool,
}

/// The blocks of one buffer.
pub struct BufferBlocks {
    pub list: BlockList,
    rules: Rules,
    alignment: Bytes,
}

impl Blocks {
    pub fn new(workspace: &mut Workspace, buffers: &[BufferSpec], tensors: usize, steps: Step) -> Self {
        // Most tensors are views, computed in place, or weights.
        let blocks = tensors / 3 / buffers.len().max(1);
        let empty = |&BufferSpec { rules, alignment, .. }: &BufferSpec| BufferBlocks {
            list: BlockList::in_memory_of(std::mem::take(&mut workspace.blocks), blocks),
            rules,
            alignment,
        };
        let buffers = buffers.iter().map(empty).collect();
        let mut allocations = std::mem::take(&mut workspace.allocations);
        refill(&mut allocations, None, tensors);
        let mut inactive_owners = std::mem::take(&mut workspace.inactive_owners);
        inactive_owners.clear();
        Self { steps, buffers, allocations, inactive_owners, beyond_ggml: false }
    }

    pub fn allocation(&self, tensor: TensorId) -> Option<&Allocation> {
        self.allocations[tensor as usize].as_ref()
    }

    pub fn rules(&self, buffer: BufferIndex) -> &Rules {
        &self.buffers[buffer as usize].rules
    }

    /// Adds a block for `tensor` alone, from `first_step` through its last use.
    #[inline(always)]
    pub fn add(&mut self, tensor: TensorId, buffer: BufferIndex, first_step: Step, last_use: Step, alloc_size: Bytes) {
        let BufferBlocks { list, rules, alignment } = &mut self.buffers[buffer as usize];
        let size = padded(alloc_size, *alignment);
        let block = list.add(Block { size, first_step, end_step: end_step(rules, last_use, self.steps) });
        self.allocations[tensor as usize] =
            Some(Allocation { buffer, block, within: 0, alloc_size, in_place_of: None });
    }

    /// Ends the block of an unused input after the first step, where the rules allow it: the input is written before
    /// that.
    pub fn end_unused(&mut self, input: TensorId) {
        let Some(allocation) = &self.allocations[input as usize] else { return };
        let BufferBlocks { list, rules, .. } = &mut self.buffers[allocation.buffer as usize];
        if rules.unread_inputs {
            list.end(allocation.block, 1);
            self.beyond_ggml = true;
        }
    }

    /// Lengthens the block of `tensor`, if it has one, so that it lasts through `step`.
    pub fn keep_through(&mut self, tensor: TensorId, step: Step) {
        let Some(allocation) = &self.allocations[tensor as usize] else { return };
        let list = &mut self.buffers[allocation.buffer as usize].list;
        let end = list.blocks()[allocation.block as usize].end_step;
        list.end(allocation.block, end.max(step + 1));
    }

    /// Returns `true` if a tensor of that size fits into the memory of `allocation`.
    #[inline(always)]
    pub fn fits(&self, alloc_size: Bytes, allocation: &Allocation) -> bool {
        let alignment = self.buffers[allocation.buffer as usize].alignment;
        alloc_size <= allocation.alloc_size || padded(alloc_size, alignment) <= padded(allocation.alloc_size, alignment)
    }

    /// Puts `node`, computed at `step`, into the block of `source`. The block shrinks to the size of the node, and
    /// lasts through the node's last use.
    #[inline(always)]
    pub fn add_in_place(&mut self, node: TensorId, source: InPlaceSource, step: Step, last_use: Step) {
        let InPlaceSource { source, buffer, block, held, alloc_size, beyond_ggml } = source;
        let BufferBlocks { list, rules, alignment } = &mut self.buffers[buffer as usize];
        if alloc_size != held {
            let [held, size] = [held, alloc_size].map(|size| padded(size, *alignment));
            if size < held {
                list.shrink(block, step + 1, size);
            }
        }
        list.end(block, end_step(rules, last_use, self.steps));
        self.allocations[node as usize] =
            Some(Allocation { buffer, block, within: 0, alloc_size, in_place_of: Some(source) });
        self.beyond_ggml |= beyond_ggml;
    }

    /// Returns the first step of the block of `allocation`.
    pub fn first_step(&self, allocation: &Allocation) -> Step {
        self.buffers[allocation.buffer as usize].list.blocks()[allocation.block as usize].first_step
    }
}

/// Returns the end of a live range by its last use: with the graph of `steps` where there is no last use.
#[inline]
fn end_step(rules: &Rules, last_use: Step, steps: Step) -> Step {
    // Backends fuse a normalization with the product after it, which then reads the source of the normalization. In
    // place both are in the memory of that source; where nothing is in place, the source stays live a step longer.
    let longer = if rules.in_place { 1 } else { 2 };
    steps.min(steps.min(last_use) + longer)
}
