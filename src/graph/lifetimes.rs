//! Who needs memory from when to when.
//!
//! The walk over the graph is ggml's: leafs, inputs, then node by node; memory is free after its last reader. It
//! differs where ggml's own walk is wrong: views that are in no list of the graph count as readers of their root, a
//! root with an OUTPUT view is kept, and a tensor that is named before it is computed is kept until it is. What it does
//! beyond that is said by [`super::Rules`].

mod donors;
mod in_order;
mod last_reads;
mod memory;
mod state;

use crate::placement::{BlockId, Bytes, Problem, Step};

use super::plan::Pool;
use super::{Graph, Operation, PoolId, Requests, TensorId};
use donors::{NodeSize, Seeker};
use in_order::InOrder;
use last_reads::LastReads;
use memory::Memory;
use state::{Marks, State};

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
    let mut walk = Walk { memory: Memory::new(pools, graph.tensors().len(), graph.steps()), sizes };
    let Start { mut states, leafs, last_reads, concats } = match InOrder::of(graph) {
        Some(known) => walk.start_in_order(graph, known, requests),
        None => walk.start(graph, requests),
    };
    walk.free_unread_inputs(&leafs, &mut states);
    walk.run(graph, &mut states, &last_reads, requests.nodes);
    let Memory { homes, beyond_ggml, pools, .. } = walk.memory;
    Lifetimes { problems: pools.into_iter().map(|pool| pool.problem).collect(), homes, concats, beyond_ggml }
}

/// What is known before the first step, when leafs and inputs have their memory.
struct Start {
    states: Vec<State>,
    /// The leafs that got memory.
    leafs: Vec<TensorId>,
    last_reads: LastReads,
    /// The steps that put the bytes of two sources into one result.
    concats: Vec<Step>,
}

/// Steps that need a second look.
struct Readers {
    /// They put the bytes of two sources into one result.
    concats: Vec<Step>,
    /// They write through a view whose root no step has computed by then.
    early_writers: Vec<TensorId>,
}

struct Walk<'a> {
    memory: Memory,
    sizes: &'a mut dyn Sizes,
}

// The graph and the states are arguments of each function: so the compiler knows that writing to the states changes
// nothing else, and keeps what the loops need in registers. For the same reason the parts stay functions of their own.
impl Walk<'_> {
    /// Where tensors may be mentioned before they are computed.
    fn start(&mut self, graph: &Graph, requests: Requests<'_>) -> Start {
        let mut states = State::of_all(graph);
        let leafs = self.give_memory_to_leafs(graph, &mut states, requests.leafs);
        let Readers { concats, early_writers } = self.find_readers(graph, &mut states, requests.nodes);
        forget_writers(graph, &mut states, &early_writers);
        let last_reads = LastReads::of(&states, graph.steps());
        forget_views(graph, &mut states);
        Start { states, leafs, last_reads, concats }
    }

    fn start_in_order(&mut self, graph: &Graph, known: InOrder, requests: Requests<'_>) -> Start {
        let InOrder { mut states, last_reads, inputs, concats } = known;
        let leafs = self.give_memory_to_leafs(graph, &mut states, requests.leafs);
        for step in inputs {
            let node = graph.nodes()[step as usize];
            self.give_memory_to_input(&mut states[node as usize], node, requests.nodes[step as usize]);
        }
        Start { states, leafs, last_reads, concats }
    }

    /// Tells which leafs got memory.
    fn give_memory_to_leafs(&mut self, graph: &Graph, states: &mut [State], pools: &[PoolId]) -> Vec<TensorId> {
        let mut given = Vec::new();
        for (&leaf, &pool) in graph.leafs().iter().zip(pools) {
            let state = &mut states[leaf as usize];
            if state.marks.has(Marks::WAITS) {
                self.give_memory(state, leaf, pool, 0);
                given.push(leaf);
            }
        }
        given
    }

    /// Finds out when each tensor is computed and when it is mentioned for the last time, and gives inputs their memory
    /// from the start.
    #[inline(never)]
    fn find_readers(&mut self, graph: &Graph, states: &mut [State], pools: &[PoolId]) -> Readers {
        let mut found = Readers { concats: Vec::new(), early_writers: Vec::new() };
        for (step, (&node, &pool)) in (0..).zip(graph.nodes().iter().zip(pools)) {
            let operation = graph.tensor(node).operation;
            let state = &mut states[node as usize];
            state.computed = step;
            if operation != Operation::Marker {
                state.marks.remove(Marks::UNSEEN);
                if state.marks.has(Marks::COUNTED) && states[graph.root(node) as usize].marks.has(Marks::UNSEEN) {
                    found.early_writers.push(node);
                }
            }
            let state = &mut states[node as usize];
            if state.marks.has(Marks::INPUT) {
                self.give_memory_to_input(state, node, pool);
            }
            if operation == Operation::Concat {
                found.concats.push(step);
            }
            for &source in graph.sources(node) {
                let state = &mut states[source as usize];
                state.read_until = step + 1;
                if state.marks.has(Marks::UNSEEN) || source == node {
                    self.notice_unseen(states, source, node, pool);
                }
            }
        }
        found
    }

    #[cold]
    fn give_memory_to_input(&mut self, state: &mut State, id: TensorId, pool: PoolId) {
        if state.marks.has(Marks::WAITS) {
            self.give_memory(state, id, pool, 0);
        }
    }

    /// `node` names a source that is in no list, or is computed by the node or later.
    #[cold]
    fn notice_unseen(&mut self, states: &mut [State], source: TensorId, node: TensorId, pool: PoolId) {
        let state = &mut states[source as usize];
        if state.marks.has(Marks::INPUT) {
            self.give_memory_to_input(state, source, pool);
        } else {
            states[node as usize].marks |= Marks::NAMES_UNSEEN;
        }
    }

    /// An input that nobody reads is written before the first step, and may be overwritten in the second.
    fn free_unread_inputs(&mut self, leafs: &[TensorId], states: &mut [State]) {
        for &leaf in leafs {
            let state = &mut states[leaf as usize];
            let is_unread = state.read_until == 0 && state.views == 0;
            if is_unread && state.marks.has_all(Marks::INPUT | Marks::ENDS) && self.memory.end_unread(leaf) {
                state.marks.remove(Marks::ENDS);
            }
        }
    }

    /// Step by step: the node gets memory, and what nobody will read any more gives it back.
    #[inline(never)]
    fn run(&mut self, graph: &Graph, states: &mut [State], last_reads: &LastReads, pools: &[PoolId]) {
        for (step, (&node, &pool)) in (0..).zip(graph.nodes().iter().zip(pools)) {
            if states[node as usize].marks.has(Marks::NAMES_UNSEEN) {
                self.give_memory_to_sources(graph, states, node, pool, step);
            }
            let state = &mut states[node as usize];
            if state.marks.has(Marks::WAITS) {
                if last_reads.is_empty(step) {
                    self.give_memory(state, node, pool, step);
                } else {
                    self.give_memory_to_reader(graph, states, node, pool, step);
                }
            }
            for id in last_reads.at(step) {
                self.finish_reads(graph, states, id, step);
            }
        }
    }

    #[cold]
    fn give_memory_to_sources(
        &mut self,
        graph: &Graph,
        states: &mut [State],
        node: TensorId,
        pool: PoolId,
        step: Step,
    ) {
        for &source in graph.sources(node) {
            let state = &mut states[source as usize];
            if state.marks.has(Marks::WAITS) {
                self.give_memory(state, source, pool, step);
            }
        }
    }

    /// Memory of its own.
    #[inline(never)]
    fn give_memory(&mut self, state: &mut State, id: TensorId, pool: PoolId, step: Step) {
        let alloc_size = self.sizes.alloc_size(id, pool);
        self.memory.add(id, pool, step, alloc_size);
        state.settle();
    }

    /// Memory of its own, or of what it is the last to read.
    #[inline(never)]
    fn give_memory_to_reader(&mut self, graph: &Graph, states: &mut [State], node: TensorId, pool: PoolId, step: Step) {
        let operation = graph.tensor(node).operation;
        let state = &mut states[node as usize];
        if matches!(operation, Operation::Marker | Operation::Other | Operation::Concat) {
            return self.give_memory(state, node, pool, step);
        }
        let mut seeker = Seeker {
            graph,
            states,
            memory: &self.memory,
            node,
            operation,
            sources: graph.sources(node),
            pool,
            step,
            size: NodeSize { sizes: self.sizes, node, known: None },
            beyond_ggml: false,
        };
        match seeker.donor() {
            Some(donor) => {
                let beyond_ggml = seeker.beyond_ggml;
                self.memory.beyond_ggml |= beyond_ggml;
                self.memory.take_over(node, donor, step);
                states[donor.root as usize].marks.remove(Marks::ENDS);
            }
            None => {
                let alloc_size = seeker.size.in_pool(pool);
                self.memory.add(node, pool, step, alloc_size);
            }
        }
        states[node as usize].settle();
    }

    /// Frees what nobody reads any more, now that nobody will mention this tensor.
    fn finish_reads(&mut self, graph: &Graph, states: &mut [State], id: TensorId, step: Step) {
        let state = &mut states[id as usize];
        if state.computed > step {
            return;
        }
        if state.marks.has(Marks::COUNTED) {
            let root = graph.root(id);
            let state = &mut states[root as usize];
            state.views -= 1;
            self.end_if_unread(state, root, step);
        } else if state.marks.has(Marks::ENDS) {
            self.end_if_unread(state, id, step);
        }
    }

    fn end_if_unread(&mut self, state: &mut State, id: TensorId, step: Step) {
        if state.views == 0 && !state.is_read_after(step) && state.may_end(step) {
            state.marks.remove(Marks::ENDS);
            self.memory.end(id, step);
        }
    }
}

/// What is written into memory before its owner is listed belongs to the making of that one: it is no reader of it.
fn forget_writers(graph: &Graph, states: &mut [State], writers: &[TensorId]) {
    for &writer in writers {
        if states[graph.root(writer) as usize].computed > states[writer as usize].computed {
            states[writer as usize].marks |= Marks::UNSEEN;
        }
    }
}

/// Takes back those of some unread views that no node computes: nobody needs them.
fn forget_views(graph: &Graph, states: &mut [State]) {
    for view in 0..states.len() {
        let State { marks, read_until, .. } = states[view];
        if read_until == 0 && marks.has_all(Marks::COUNTED | Marks::UNSEEN) {
            let root = graph.tensors()[view].view.map(|view| view.root);
            root.into_iter().for_each(|root| states[root as usize].views -= 1);
        }
    }
}
