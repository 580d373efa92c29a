//! Who needs memory from when to when.
//!
//! The walk over the graph is ggml's: leafs, inputs, then node by node; memory is free after its last reader. It
//! differs where ggml's own walk is wrong: views that are in no list of the graph count as readers of their root, a
//! root with an OUTPUT view is kept, and a tensor that is named before it is computed is kept until it is.

use crate::placement::{Block, BlockId, Bytes, Problem, Step, padded};

use super::plan::Pool;
use super::{Flags, Graph, PoolId, Requests, Rules, TensorId};

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
    /// Was memory taken over through a view, which ggml never does?
    pub reused_through_view: bool,
}

/// Finds the lifetimes of all tensors of `graph` that need memory.
pub fn lifetimes(
    graph: &Graph,
    pools: &[Pool],
    requests: Requests<'_>,
    rules: Rules,
    sizes: &mut dyn Sizes,
) -> Lifetimes {
    let mut walk = Walk::new(graph, pools, rules, sizes);
    for (&leaf, &pool) in graph.leafs().iter().zip(requests.leafs) {
        walk.give_memory(leaf, pool, 0);
    }
    walk.count_readers(requests.nodes);
    for (step, (&node, &pool)) in (0..).zip(graph.nodes().iter().zip(requests.nodes)) {
        for &source in graph.sources(node) {
            walk.give_memory(source, pool, step);
        }
        walk.give_memory_to_node(node, pool, step);
        for &source in graph.sources(node) {
            walk.finish_read(source, step);
        }
    }
    Lifetimes { problems: walk.problems, homes: walk.homes, reused_through_view: walk.reused_through_view }
}

/// What the walk knows of a tensor.
#[derive(Clone, Copy, Default)]
struct State {
    /// Mentions as a source that are still to come.
    reads: u32,
    /// Views of this root that somebody still may read.
    views: u32,
    /// Is this view among `views` of its root?
    counted: bool,
    /// Does its memory belong to it, not to a node computed in its place?
    owner: bool,
    /// Must its memory last to the end: OUTPUT, or the root of an OUTPUT view?
    kept: bool,
    /// The step that computes it; step 0 also for what has its value from the start.
    computed: Step,
}

struct Walk<'a> {
    graph: &'a Graph,
    pools: &'a [Pool],
    rules: Rules,
    sizes: &'a mut dyn Sizes,
    states: Vec<State>,
    problems: Vec<Problem>,
    homes: Vec<Option<Home>>,
    /// Padded bytes that each block holds now, by pool.
    held: Vec<Vec<Bytes>>,
    reused_through_view: bool,
}

impl<'a> Walk<'a> {
    fn new(graph: &'a Graph, pools: &'a [Pool], rules: Rules, sizes: &'a mut dyn Sizes) -> Self {
        let count = graph.tensors().len();
        let mut states = vec![State::default(); count];
        for (id, tensor) in (0..).zip(graph.tensors()) {
            states[graph.root(id) as usize].kept |= tensor.flags.has(Flags::OUTPUT);
        }
        for (step, &node) in (0..).zip(graph.nodes()) {
            states[node as usize].computed = step;
        }
        Self {
            graph,
            pools,
            rules,
            sizes,
            states,
            problems: pools.iter().map(|pool| Problem::new(pool.alignment, pool.max_chunk)).collect(),
            homes: vec![None; count],
            held: vec![Vec::new(); pools.len()],
            reused_through_view: false,
        }
    }

    /// Counts mentions and views, and gives inputs their memory from the start.
    fn count_readers(&mut self, pools: &[PoolId]) {
        let graph = self.graph;
        for (&node, &pool) in graph.nodes().iter().zip(pools) {
            if !graph.tensor(node).is_none {
                self.count_view(node);
            }
            self.give_memory_to_input(node, pool);
            for &source in graph.sources(node) {
                self.states[source as usize].reads += 1;
                self.count_view(source);
                self.give_memory_to_input(source, pool);
            }
        }
    }

    fn count_view(&mut self, id: TensorId) {
        let Some(view) = self.graph.tensor(id).view else { return };
        if !self.states[id as usize].counted {
            self.states[id as usize].counted = true;
            self.states[view.root as usize].views += 1;
        }
    }

    fn give_memory_to_input(&mut self, id: TensorId, pool: PoolId) {
        if self.graph.tensor(id).flags.has(Flags::INPUT) {
            self.give_memory(id, pool, 0);
        }
    }

    /// Memory of its own, unless it has some or needs none.
    fn give_memory(&mut self, id: TensorId, pool: PoolId, step: Step) {
        if self.needs_memory(id) {
            let alloc_size = self.sizes.alloc_size(id, pool);
            let size = padded(alloc_size, self.pools[pool as usize].alignment);
            let death = self.graph.steps();
            let block = self.problems[pool as usize].add(Block { size, birth: step, death });
            self.held[pool as usize].push(size);
            self.settle(id, Home { pool, block, alloc_size, in_place_of: None });
        }
    }

    fn give_memory_to_node(&mut self, node: TensorId, pool: PoolId, step: Step) {
        if self.needs_memory(node) && !(self.rules.in_place && self.compute_in_place(node, pool, step)) {
            self.give_memory(node, pool, step);
        }
    }

    fn needs_memory(&self, id: TensorId) -> bool {
        self.homes[id as usize].is_none() && self.graph.tensor(id).is_owned()
    }

    fn settle(&mut self, id: TensorId, home: Home) {
        self.homes[id as usize] = Some(home);
        self.states[id as usize].owner = true;
    }

    /// Takes over the memory of the first source that allows it. Views come last: a node then moves to another pool
    /// exactly when ggml would move it, so that no pool grows beyond what ggml needs.
    fn compute_in_place(&mut self, node: TensorId, pool: PoolId, step: Step) -> bool {
        let graph = self.graph;
        graph.tensor(node).can_run_in_place
            && (graph.sources(node).iter().any(|&source| self.reuse_source(node, source, step))
                || graph.sources(node).iter().any(|&source| self.reuse_root(node, source, pool, step)))
    }

    /// Takes over the memory of a source that is no view and that nobody reads after this node.
    fn reuse_source(&mut self, node: TensorId, source: TensorId, step: Step) -> bool {
        self.is_last_reader(node, source, step)
            && self.graph.tensor(source).view.is_none()
            && self.take_over(node, source, source, step)
    }

    /// Takes over the memory of the root that a source is a view of, when nobody reads either after this node.
    fn reuse_root(&mut self, node: TensorId, source: TensorId, pool: PoolId, step: Step) -> bool {
        let Some(view) = self.graph.tensor(source).view else { return false };
        let root = &self.states[view.root as usize];
        self.rules.in_place_through_views
            && view.offset == 0
            && root.reads == 0
            && root.views == 1
            && self.states[source as usize].counted
            && self.homes[view.root as usize].is_some_and(|home| home.pool == pool)
            && self.is_last_reader(node, source, step)
            && self.take_over(node, source, view.root, step)
    }

    /// Does `node` look like `source`, and will nobody read that afterwards?
    fn is_last_reader(&self, node: TensorId, source: TensorId, step: Step) -> bool {
        let state = &self.states[source as usize];
        let same_layout = self.graph.tensor(source).layout == self.graph.tensor(node).layout;
        same_layout && state.reads == 1 && state.views == 0 && state.computed <= step
    }

    /// Moves `node` into the memory of `donor`, and frees what it does not fill; refuses when it is too small.
    fn take_over(&mut self, node: TensorId, source: TensorId, donor: TensorId, step: Step) -> bool {
        let state = &self.states[donor as usize];
        let Some(home) = self.homes[donor as usize] else { return false };
        if !state.owner || state.kept || state.computed > step {
            return false;
        }
        let alloc_size = self.sizes.alloc_size(node, home.pool);
        let size = padded(alloc_size, self.pools[home.pool as usize].alignment);
        let held = &mut self.held[home.pool as usize][home.block as usize];
        if size > *held {
            return false;
        }
        if size < *held {
            *held = size;
            self.problems[home.pool as usize].shrink(home.block, step + 1, size);
        }
        self.states[donor as usize].owner = false;
        self.settle(node, Home { alloc_size, in_place_of: Some(source), ..home });
        self.reused_through_view |= source != donor;
        true
    }

    /// One mention of `source` is done; frees what nobody will read any more.
    fn finish_read(&mut self, source: TensorId, step: Step) {
        let state = &mut self.states[source as usize];
        state.reads -= 1;
        if state.reads > 0 || state.views > 0 || state.computed > step {
            return;
        }
        match self.graph.tensor(source).view {
            None => self.free(source, step),
            Some(view) => {
                let root = &mut self.states[view.root as usize];
                root.views -= 1;
                if root.views == 0 && root.reads == 0 {
                    self.free(view.root, step);
                }
            }
        }
    }

    fn free(&mut self, id: TensorId, step: Step) {
        let state = &mut self.states[id as usize];
        if let Some(home) = self.homes[id as usize]
            && state.owner
            && !state.kept
            && state.computed <= step
        {
            state.owner = false;
            self.problems[home.pool as usize].end(home.block, step + 1);
        }
    }
}
