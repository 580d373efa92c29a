//! Who needs memory from when to when.
//!
//! The walk over the graph is ggml's: leafs, inputs, then node by node; memory is free after its last reader. It
//! differs where ggml's own walk is wrong: views that are in no list of the graph count as readers of their root, a
//! root with an OUTPUT view is kept, and a tensor that is named before it is computed is kept until it is. What it does
//! beyond that is said by [`super::Rules`].

mod any_order;
mod donors;
mod in_order;
mod memory;
mod start;

use std::ops::Range;

use crate::placement::{BlockId, Bytes, Problem, Step};

use super::plan::Pool;
use super::{Flags, Graph, Operation, PoolId, Requests, TensorId};
use donors::{NodeSize, Seeker};
use memory::Memory;
use start::{Ends, Moment, NOBODY, Start};

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

/// The blocks of a graph.
#[derive(Debug)]
pub struct Lifetimes {
    /// By pool.
    pub problems: Vec<Problem>,
    /// By tensor; `None` for views, external tensors and those that nobody needs.
    pub homes: Vec<Option<Home>>,
    /// The steps that put the bytes of two sources into one result.
    pub concats: Vec<Step>,
    /// Is memory shared that ggml would not share?
    pub beyond_ggml: bool,
}

/// Finds the lifetimes of all tensors of `graph` that need memory. Asks for the size of each once a pool.
pub fn lifetimes(graph: &Graph, pools: &[Pool], requests: Requests<'_>, sizes: &mut dyn Sizes) -> Lifetimes {
    let start = Start::of(graph, requests);
    let memory = Memory::new(pools, graph.tensors().len(), graph.steps());
    let mut walk = Walk { memory, sizes, concats: Vec::new() };
    walk.start(&start);
    walk.free_unread_inputs(graph, &start);
    let Start { mut ends, names_unseen, .. } = start;
    let mut next = 0;
    for step in names_unseen {
        walk.run(graph, &mut ends, next..step, requests.nodes);
        walk.give_memory_to_sources(graph, step, requests.nodes);
        next = step;
    }
    walk.run(graph, &mut ends, next..graph.nodes().len() as Step, requests.nodes);
    let Walk { memory: Memory { homes, beyond_ggml, pools, .. }, concats, .. } = walk;
    Lifetimes { problems: pools.into_iter().map(|pool| pool.problem).collect(), homes, concats, beyond_ggml }
}

/// The step that runs a node.
#[derive(Clone, Copy)]
struct Turn {
    node: TensorId,
    /// The pool that is wanted for the node.
    pool: PoolId,
    step: Step,
    moment: Moment,
}

struct Walk<'a> {
    memory: Memory,
    sizes: &'a mut dyn Sizes,
    /// The steps so far that put the bytes of two sources into one result.
    concats: Vec<Step>,
}

// The graph and the ends are arguments of each function: so the compiler knows that writing to the ends changes nothing
// else, and keeps what the loops need in registers.
impl Walk<'_> {
    /// Leafs and inputs get memory.
    fn start(&mut self, start: &Start) {
        for &(id, pool) in start.leafs.iter().chain(&start.inputs) {
            self.give_memory(id, pool, 0);
        }
    }

    /// An input that nobody reads is written before the first step, and may be overwritten in the second.
    fn free_unread_inputs(&mut self, graph: &Graph, start: &Start) {
        for &(leaf, _) in &start.leafs {
            if start.ends.moments[leaf as usize] == NOBODY && graph.tensor(leaf).flags.has(Flags::INPUT) {
                self.memory.end_unread(leaf);
            }
        }
    }

    /// Step by step: the node gets memory, and what nobody will read any more gives it back.
    #[inline(never)]
    fn run(&mut self, graph: &Graph, ends: &mut Ends, steps: Range<Step>, pools: &[PoolId]) {
        let Ends { moments: ends, first } = ends;
        let range = steps.start as usize..steps.end as usize;
        let nodes = graph.nodes()[range.clone()].iter().zip(&pools[range]);
        for (step, (&node, &pool)) in steps.zip(nodes) {
            let turn = Turn { node, pool, step, moment: *first + step };
            let sources = graph.sources(node);
            let tensor = graph.tensor(node);
            if tensor.is_owned() && self.memory.home(node).is_none() {
                self.give_memory_to_node(graph, ends, turn, sources);
            }
            if tensor.operation == Operation::Concat {
                self.concats.push(step);
            }
            for &source in sources {
                if ends[source as usize] == turn.moment {
                    self.end(graph, ends, source, turn);
                }
            }
        }
    }

    /// What a step names before anything has given memory to it.
    #[cold]
    fn give_memory_to_sources(&mut self, graph: &Graph, step: Step, pools: &[PoolId]) {
        for &source in graph.sources(graph.nodes()[step as usize]) {
            if graph.tensor(source).is_owned() && self.memory.home(source).is_none() {
                self.give_memory(source, pools[step as usize], step);
            }
        }
    }

    /// Memory of its own.
    fn give_memory(&mut self, id: TensorId, pool: PoolId, step: Step) {
        let alloc_size = self.sizes.alloc_size(id, pool);
        self.memory.add(id, pool, step, alloc_size);
    }

    /// Memory of its own, or of what it is the last to read.
    #[inline(never)]
    fn give_memory_to_node(&mut self, graph: &Graph, ends: &mut [Moment], turn: Turn, sources: &[TensorId]) {
        let Turn { node, pool, step, .. } = turn;
        let operation = graph.tensor(node).operation;
        if matches!(operation, Operation::Marker | Operation::Other | Operation::Concat) {
            return self.give_memory(node, pool, step);
        }
        let mut size = NodeSize { sizes: self.sizes, node, known: None };
        let seeker = Seeker { graph, ends, memory: &self.memory, turn, operation, sources };
        if let Some(donor) = seeker.donor(&mut size) {
            // The memory goes on as that of the node.
            ends[donor.root as usize] = NOBODY;
            self.memory.take_over(node, donor, step);
        } else {
            let alloc_size = size.in_pool(pool);
            self.memory.add(node, pool, step, alloc_size);
        }
    }

    /// Ends the memory that `source` is in, if nobody reads any of it after this step.
    #[inline]
    fn end(&mut self, graph: &Graph, ends: &[Moment], source: TensorId, turn: Turn) {
        let root = graph.root(source);
        if ends[root as usize] == turn.moment {
            self.memory.end(root, turn.step);
        }
    }
}
