//! Live ranges: from which step to which each tensor needs memory, and which tensors share a block.
//!
//! A first pass finds the last use of every tensor, then a walk over the nodes adds a block for each tensor that is not
//! computed in place. The walk is ggml's: leafs, inputs, then node by node; memory is free after its last use. It
//! differs where ggml's own walk is wrong: views that are in no list of the graph count as uses of their root, a root
//! with an OUTPUT view is kept, and a tensor that is used before its def is kept until its def. Reuse beyond that
//! follows [`Rules`](super::Rules). Memory of retained tensors is free only after the retention. Uses the graph, `rules`
//! and `buffer`.
//!
//! - `inactive`: the nodes that no backend computes
//! - `last_uses`: the first pass, quick for nearly all graphs
//! - `any_order`: the first pass over any graph
//! - `in_place`: the search for a source to compute a node in place of
//! - `walk`: the walk
//! - `concat`: operands of CONCAT that are computed inside the result

mod inactive;
mod last_uses;
mod any_order;
mod in_place;
mod walk;
mod concat;

use crate::graph::{BufferIndex, BufferSpec, Lists, Rules, TensorId};
use crate::placement::{Block, BlockId, BlockList, Bytes, Problem, Step, padded, refill};

pub use concat::compute_inside_concats;
pub use last_uses::Workspace;
pub use walk::live_ranges;

/// The block of a tensor. Tensors computed in place share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The buffer that the block belongs to.
    pub buffer: BufferIndex,
    /// The block.
    pub block: BlockId,
    /// Bytes from the start of the block: more than 0 only for a tensor computed inside the result of a CONCAT.
    pub within: Bytes,
    /// Bytes that the buffer type requires for this tensor, before padding.
    pub alloc_size: Bytes,
    /// The in-place source, where the tensor is computed in place.
    pub in_place_of: Option<TensorId>,
}

/// An inactive node that owns memory: no backend computes it, so it has an address in its buffer, but no own bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InactiveNode {
    /// The node.
    pub tensor: TensorId,
    /// The buffer of its address.
    pub buffer: BufferIndex,
    /// Bytes that the buffer type requires for it, before padding.
    pub alloc_size: Bytes,
    /// The source that ggml's own allocator may compute it in place of; it then has the address of that source.
    pub in_place_of: Option<TensorId>,
}

/// The live ranges of a graph, as blocks of each buffer.
#[derive(Debug)]
pub struct LiveRanges {
    /// By buffer.
    pub blocks: Vec<BlockList>,
    /// By tensor; `None` for views, external tensors, unused tensors and inactive nodes.
    pub allocations: Vec<Option<Allocation>>,
    /// The inactive nodes, by id.
    pub inactive: Vec<TensorId>,
    /// The inactive nodes that own memory, by id.
    pub inactive_owners: Vec<InactiveNode>,
    /// The steps of CONCATs whose results own memory.
    pub concats: Vec<Step>,
    /// True if memory is reused where ggml's own allocator would not reuse it.
    pub beyond_ggml: bool,
}

impl LiveRanges {
    /// Takes the blocks as one placement problem per buffer. Nothing changes them any more.
    pub fn take_problems(&mut self, buffers: &[BufferSpec]) -> Vec<Problem> {
        let problem =
            |(list, buffer): (BlockList, &BufferSpec)| Problem::from_blocks(list, buffer.alignment, buffer.max_chunk);
        std::mem::take(&mut self.blocks).into_iter().zip(buffers).map(problem).collect()
    }
}

/// Returns, by buffer and block, the tensors in it, by id.
pub fn tensors_in_blocks(allocations: &[Option<Allocation>], problems: &[Problem]) -> Vec<Lists<TensorId>> {
    let of_buffer = |(buffer, problem): (BufferIndex, &Problem)| {
        let in_buffer = (0..).zip(allocations).filter_map(move |(id, allocation)| {
            let allocation = allocation.filter(|allocation| allocation.buffer == buffer)?;
            Some((allocation.block, id))
        });
        Lists::collect(problem.blocks().len(), in_buffer)
    };
    (0..).zip(problems).map(of_buffer).collect()
}

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
