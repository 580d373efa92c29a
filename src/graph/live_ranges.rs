//! Who needs memory from when to when.
//!
//! The walk over the graph is ggml's: leafs, inputs, then node by node; memory is free after its last reader. It
//! differs where ggml's own walk is wrong: views that are in no list of the graph count as readers of their root, a
//! root with an OUTPUT view is kept, and a tensor that is named before it is computed is kept until it is. What it does
//! beyond that is said by [`super::Rules`].

mod any_order;
mod donors;
mod in_order;
mod inactive;
mod memory;
mod start;

use std::ops::Range;

use crate::placement::{BlockId, Bytes, Problem, Step};

use super::plan::BufferSpec;
use super::{BufferIndex, Flags, Graph, Operation, Requests, TensorId};
use donors::{Known, Seeker};
use memory::Memory;
use start::Start;

/// Asks for the bytes of a tensor in a buffer, before padding.
pub trait Sizes {
    /// Bytes that the buffer type of `buffer` wants for `tensor`.
    fn alloc_size(&mut self, tensor: TensorId, buffer: BufferIndex) -> Bytes;
}

impl<F: FnMut(TensorId, BufferIndex) -> Bytes> Sizes for F {
    fn alloc_size(&mut self, tensor: TensorId, buffer: BufferIndex) -> Bytes {
        self(tensor, buffer)
    }
}

/// The block that a tensor lives in. Tensors computed in place share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Whose problem the block belongs to.
    pub buffer: BufferIndex,
    /// The block.
    pub block: BlockId,
    /// Bytes from the start of the block: more than 0 only for what is computed inside the result of a CONCAT.
    pub within: Bytes,
    /// Bytes that the buffer type wants for this tensor, before padding.
    pub alloc_size: Bytes,
    /// The source whose memory was taken over, where the tensor is computed in place.
    pub in_place_of: Option<TensorId>,
}

/// An inactive node: no backend computes it, so it has an address in its buffer, but no bytes of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InactiveNode {
    /// The node.
    pub tensor: TensorId,
    /// The buffer of its address.
    pub buffer: BufferIndex,
    /// Bytes that the buffer type wants for it, before padding.
    pub alloc_size: Bytes,
    /// The source that ggml's own allocator may compute it in place of: that is where it lies then.
    pub in_place_of: Option<TensorId>,
}

/// The blocks of a graph.
#[derive(Debug)]
pub struct LiveRanges {
    /// By buffer.
    pub problems: Vec<Problem>,
    /// By tensor; `None` for views, external tensors and those that nobody needs, inactive nodes among them.
    pub allocations: Vec<Option<Allocation>>,
    /// The inactive nodes, by id.
    pub inactive: Vec<TensorId>,
    /// Those of them that own memory, by id.
    pub inactive_owners: Vec<InactiveNode>,
    /// The steps that put the bytes of two sources into one result.
    pub concats: Vec<Step>,
    /// Is memory shared that ggml would not share?
    pub beyond_ggml: bool,
}

/// Finds the live ranges of all tensors of `graph` that need memory. Asks for the size of each once a buffer.
pub fn live_ranges<S: Sizes>(
    graph: &Graph,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut S,
) -> LiveRanges {
    let may_be_inactive = |buffer: BufferIndex| buffers[buffer as usize].rules.inactive;
    let Start { leafs, inputs, ends, names_unseen, inactive } = Start::of(graph, requests, may_be_inactive);
    // With one buffer, no node can move to another.
    let used_by_inactive = if buffers.len() > 1 { inactive.last_uses(graph) } else { Vec::new() };
    let mut inactive: Vec<TensorId> = inactive.nodes().collect();
    let mut memory = Memory::new(buffers, graph.tensors().len(), graph.steps());
    memory.beyond_ggml = !inactive.is_empty();
    let known = Known { graph, ends: &ends, used_by_inactive: &used_by_inactive };
    let mut walk = Walk { known, memory, sizes, concats: Vec::new() };
    leafs.into_iter().for_each(|(leaf, buffer)| walk.give_memory_to_leaf(leaf, buffer));
    inputs.into_iter().for_each(|(input, buffer)| walk.give_memory(input, buffer, 0));
    let mut next = 0;
    for step in names_unseen {
        walk.run(next..step, requests.nodes);
        walk.give_memory_to_sources(step, requests.nodes);
        next = step;
    }
    let end = Step::try_from(graph.nodes().len()).expect("fewer than 2^32 nodes");
    walk.run(next..end, requests.nodes);
    let Walk { memory: Memory { allocations, mut inactive_owners, beyond_ggml, buffers, .. }, concats, .. } = walk;
    inactive.sort_unstable();
    inactive_owners.sort_unstable_by_key(|node| node.tensor);
    let problems = buffers.into_iter().map(|buffer| buffer.problem).collect();
    LiveRanges { problems, allocations, inactive, inactive_owners, concats, beyond_ggml }
}

struct Walk<'a, S> {
    known: Known<'a>,
    memory: Memory,
    sizes: &'a mut S,
    /// The steps so far that put the bytes of two sources into one result.
    concats: Vec<Step>,
}

impl<S: Sizes> Walk<'_, S> {
    /// An input that nobody reads is written before the first step, and may be overwritten in the second.
    fn give_memory_to_leaf(&mut self, leaf: TensorId, buffer: BufferIndex) {
        self.give_memory(leaf, buffer, 0);
        if self.known.ends.is_unread(leaf) && self.known.graph.tensor(leaf).flags.has(Flags::INPUT) {
            self.memory.end_unread(leaf);
        }
    }

    /// Step by step, the nodes get memory.
    #[inline(never)]
    fn run(&mut self, steps: Range<Step>, buffers: &[BufferIndex]) {
        let (nodes, tensors) = (self.known.graph.nodes(), self.known.graph.tensors());
        let range = steps.start as usize..steps.end as usize;
        let nodes = nodes[range.clone()].iter().zip(&buffers[range]);
        for (step, (&node, &buffer)) in steps.zip(nodes) {
            let tensor = &tensors[node as usize];
            if tensor.is_owned() {
                if self.known.ends.is_inactive(node) {
                    self.leave_without_memory(node, buffer);
                    continue;
                }
                if tensor.operation == Operation::Concat {
                    self.concats.push(step);
                }
                if self.memory.allocation(node).is_none() {
                    self.give_memory_to_node(node, tensor.operation, buffer, step);
                }
            }
        }
    }

    /// What a step names before anything has given memory to it.
    #[cold]
    fn give_memory_to_sources(&mut self, step: Step, buffers: &[BufferIndex]) {
        for &source in self.known.graph.sources(self.known.graph.nodes()[step as usize]) {
            let is_needed = self.known.graph.tensor(source).is_owned() && !self.known.ends.is_inactive(source);
            if is_needed && self.memory.allocation(source).is_none() {
                self.give_memory(source, buffers[step as usize], step);
            }
        }
    }

    /// No memory for a node that no backend computes. Where ggml's own allocator may compute it in place, it lies in its
    /// source: the buffer that was requested for it may be too small then.
    #[cold]
    fn leave_without_memory(&mut self, node: TensorId, buffer: BufferIndex) {
        let source = (0..)
            .zip(self.known.graph.sources(node))
            .find_map(|(slot, &source)| self.source_in_place(node, slot, source));
        let inactive_owners = source.unwrap_or_else(|| InactiveNode {
            tensor: node,
            buffer,
            alloc_size: self.sizes.alloc_size(node, buffer),
            in_place_of: None,
        });
        self.memory.inactive_owners.push(inactive_owners);
    }

    /// An inactive node in the place of a source, where ggml's own list of operations allows it and it fits.
    fn source_in_place(&mut self, node: TensorId, slot: usize, source: TensorId) -> Option<InactiveNode> {
        let operation = self.known.graph.tensor(node).operation;
        if !operation.is_listed() || !operation.may_write_over(slot) || !self.known.graph.look_alike(source, node) {
            return None;
        }
        let allocation = self.memory.allocation(source).map(|allocation| (allocation.buffer, allocation.alloc_size));
        let inactive_owners = || self.memory.inactive_owners.iter().rfind(|node| node.tensor == source);
        let (buffer, held) = allocation.or_else(|| inactive_owners().map(|node| (node.buffer, node.alloc_size)))?;
        let alloc_size = self.sizes.alloc_size(node, buffer);
        (alloc_size <= held).then_some(InactiveNode { tensor: node, buffer, alloc_size, in_place_of: Some(source) })
    }

    /// Memory of its own.
    fn give_memory(&mut self, id: TensorId, buffer: BufferIndex, step: Step) {
        let alloc_size = self.sizes.alloc_size(id, buffer);
        self.memory.add(id, buffer, step, self.known.ends.last_read(id), alloc_size);
    }

    /// Memory of its own, or of what it is the last to read.
    #[inline]
    fn give_memory_to_node(&mut self, node: TensorId, operation: Operation, buffer: BufferIndex, step: Step) {
        let last_read = self.known.ends.last_read(node);
        let found = match operation {
            Operation::Marker | Operation::View | Operation::Other | Operation::Concat => {
                Err(self.sizes.alloc_size(node, buffer))
            }
            _ => self.seeker(node, operation, buffer, step).donor(),
        };
        match found {
            Ok(donor) => self.memory.take_over(node, donor, step, last_read),
            Err(alloc_size) => self.memory.add(node, buffer, step, last_read, alloc_size),
        }
    }

    #[inline]
    fn seeker(&mut self, node: TensorId, operation: Operation, buffer: BufferIndex, step: Step) -> Seeker<'_, S> {
        let Self { known, memory, sizes, .. } = self;
        let (sources, now) = (known.graph.sources(node), known.ends.moment(step));
        Seeker { known, memory, node, operation, sources, buffer, now, sizes, known_size: None }
    }
}
