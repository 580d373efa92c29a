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

use super::plan::Pool;
use super::{Flags, Graph, Operation, PoolId, Requests, TensorId};
use donors::{Known, Seeker};
use memory::Memory;
use start::Start;

/// Asks for the bytes of a tensor in a pool, before padding.
pub trait Sizes {
    /// Bytes that the buffer type of `pool` wants for `tensor`.
    fn alloc_size(&mut self, tensor: TensorId, pool: PoolId) -> Bytes;
}

impl<F: FnMut(TensorId, PoolId) -> Bytes> Sizes for F {
    fn alloc_size(&mut self, tensor: TensorId, pool: PoolId) -> Bytes {
        self(tensor, pool)
    }
}

/// The block that a tensor lives in. Tensors computed in place share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// Whose problem the block belongs to.
    pub pool: PoolId,
    /// The block.
    pub block: BlockId,
    /// Bytes from the start of the block: more than 0 only for what is computed inside the result of a CONCAT.
    pub within: Bytes,
    /// Bytes that the buffer type wants for this tensor, before padding.
    pub alloc_size: Bytes,
    /// The source whose memory was taken over, where the tensor is computed in place.
    pub in_place_of: Option<TensorId>,
}

/// An inactive node: no backend computes it, so it has an address in its pool, but no bytes of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// The node.
    pub tensor: TensorId,
    /// The pool of its address.
    pub pool: PoolId,
    /// Bytes that the buffer type wants for it, before padding.
    pub alloc_size: Bytes,
    /// The source that ggml's own allocator may compute it in place of: that is where it lies then.
    pub in_place_of: Option<TensorId>,
}

/// The blocks of a graph.
#[derive(Debug)]
pub struct Lifetimes {
    /// By pool.
    pub problems: Vec<Problem>,
    /// By tensor; `None` for views, external tensors and those that nobody needs, inactive nodes among them.
    pub homes: Vec<Option<Home>>,
    /// The inactive nodes, by id.
    pub inactive: Vec<TensorId>,
    /// Those of them that own memory, by id.
    pub unplaced: Vec<Unplaced>,
    /// The steps that put the bytes of two sources into one result.
    pub concats: Vec<Step>,
    /// Is memory shared that ggml would not share?
    pub beyond_ggml: bool,
}

/// Finds the lifetimes of all tensors of `graph` that need memory. Asks for the size of each once a pool.
pub fn lifetimes<S: Sizes>(graph: &Graph, pools: &[Pool], requests: Requests<'_>, sizes: &mut S) -> Lifetimes {
    let may_be_inactive = |pool: PoolId| pools[pool as usize].rules.inactive;
    let Start { leafs, inputs, ends, names_unseen, inactive } = Start::of(graph, requests, may_be_inactive);
    // With one pool, no node can move to another.
    let used_by_inactive = if pools.len() > 1 { inactive.last_uses(graph) } else { Vec::new() };
    let mut inactive: Vec<TensorId> = inactive.nodes().collect();
    let mut memory = Memory::new(pools, graph.tensors().len(), graph.steps());
    memory.beyond_ggml = !inactive.is_empty();
    let known = Known { graph, ends: &ends, used_by_inactive: &used_by_inactive };
    let mut walk = Walk { known, memory, sizes, concats: Vec::new() };
    leafs.into_iter().for_each(|(leaf, pool)| walk.give_memory_to_leaf(leaf, pool));
    inputs.into_iter().for_each(|(input, pool)| walk.give_memory(input, pool, 0));
    let mut next = 0;
    for step in names_unseen {
        walk.run(next..step, requests.nodes);
        walk.give_memory_to_sources(step, requests.nodes);
        next = step;
    }
    let end = Step::try_from(graph.nodes().len()).expect("fewer than 2^32 nodes");
    walk.run(next..end, requests.nodes);
    let Walk { memory: Memory { homes, mut unplaced, beyond_ggml, pools, .. }, concats, .. } = walk;
    inactive.sort_unstable();
    unplaced.sort_unstable_by_key(|node| node.tensor);
    let problems = pools.into_iter().map(|pool| pool.problem).collect();
    Lifetimes { problems, homes, inactive, unplaced, concats, beyond_ggml }
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
    fn give_memory_to_leaf(&mut self, leaf: TensorId, pool: PoolId) {
        self.give_memory(leaf, pool, 0);
        if self.known.ends.is_unread(leaf) && self.known.graph.tensor(leaf).flags.has(Flags::INPUT) {
            self.memory.end_unread(leaf);
        }
    }

    /// Step by step, the nodes get memory.
    #[inline(never)]
    fn run(&mut self, steps: Range<Step>, pools: &[PoolId]) {
        let (nodes, tensors) = (self.known.graph.nodes(), self.known.graph.tensors());
        let range = steps.start as usize..steps.end as usize;
        let nodes = nodes[range.clone()].iter().zip(&pools[range]);
        for (step, (&node, &pool)) in steps.zip(nodes) {
            let tensor = &tensors[node as usize];
            if tensor.is_owned() {
                if self.known.ends.is_inactive(node) {
                    self.leave_without_memory(node, pool);
                    continue;
                }
                if tensor.operation == Operation::Concat {
                    self.concats.push(step);
                }
                if self.memory.home(node).is_none() {
                    self.give_memory_to_node(node, tensor.operation, pool, step);
                }
            }
        }
    }

    /// What a step names before anything has given memory to it.
    #[cold]
    fn give_memory_to_sources(&mut self, step: Step, pools: &[PoolId]) {
        for &source in self.known.graph.sources(self.known.graph.nodes()[step as usize]) {
            let is_needed = self.known.graph.tensor(source).is_owned() && !self.known.ends.is_inactive(source);
            if is_needed && self.memory.home(source).is_none() {
                self.give_memory(source, pools[step as usize], step);
            }
        }
    }

    /// No memory for a node that no backend computes. Where ggml's own allocator may compute it in place, it lies in its
    /// source: the pool that was requested for it may be too small then.
    #[cold]
    fn leave_without_memory(&mut self, node: TensorId, pool: PoolId) {
        let source = (0..)
            .zip(self.known.graph.sources(node))
            .find_map(|(slot, &source)| self.source_in_place(node, slot, source));
        let unplaced = source.unwrap_or_else(|| Unplaced {
            tensor: node,
            pool,
            alloc_size: self.sizes.alloc_size(node, pool),
            in_place_of: None,
        });
        self.memory.unplaced.push(unplaced);
    }

    /// An inactive node in the place of a source, where ggml's own list of operations allows it and it fits.
    fn source_in_place(&mut self, node: TensorId, slot: usize, source: TensorId) -> Option<Unplaced> {
        let operation = self.known.graph.tensor(node).operation;
        if !operation.is_listed() || !operation.may_write_over(slot) || !self.known.graph.look_alike(source, node) {
            return None;
        }
        let home = self.memory.home(source).map(|home| (home.pool, home.alloc_size));
        let unplaced = || self.memory.unplaced.iter().rfind(|node| node.tensor == source);
        let (pool, held) = home.or_else(|| unplaced().map(|node| (node.pool, node.alloc_size)))?;
        let alloc_size = self.sizes.alloc_size(node, pool);
        (alloc_size <= held).then_some(Unplaced { tensor: node, pool, alloc_size, in_place_of: Some(source) })
    }

    /// Memory of its own.
    fn give_memory(&mut self, id: TensorId, pool: PoolId, step: Step) {
        let alloc_size = self.sizes.alloc_size(id, pool);
        self.memory.add(id, pool, step, self.known.ends.last_read(id), alloc_size);
    }

    /// Memory of its own, or of what it is the last to read.
    #[inline]
    fn give_memory_to_node(&mut self, node: TensorId, operation: Operation, pool: PoolId, step: Step) {
        let last_read = self.known.ends.last_read(node);
        let found = match operation {
            Operation::Marker | Operation::View | Operation::Other | Operation::Concat => {
                Err(self.sizes.alloc_size(node, pool))
            }
            _ => self.seeker(node, operation, pool, step).donor(),
        };
        match found {
            Ok(donor) => self.memory.take_over(node, donor, step, last_read),
            Err(alloc_size) => self.memory.add(node, pool, step, last_read, alloc_size),
        }
    }

    #[inline]
    fn seeker(&mut self, node: TensorId, operation: Operation, pool: PoolId, step: Step) -> Seeker<'_, S> {
        let Self { known, memory, sizes, .. } = self;
        let (sources, now) = (known.graph.sources(node), known.ends.moment(step));
        Seeker { known, memory, node, operation, sources, pool, now, sizes, known_size: None }
    }
}
