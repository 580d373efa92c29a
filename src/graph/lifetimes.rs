//! Who needs memory from when to when.
//!
//! The walk over the graph is ggml's: leafs, inputs, then node by node; memory is free after its last reader. It
//! differs where ggml's own walk is wrong: views that are in no list of the graph count as readers of their root, a
//! root with an OUTPUT view is kept, and a tensor that is named before it is computed is kept until it is. What it does
//! beyond that is said by [`super::Rules`].

use crate::placement::{Block, BlockId, Bytes, Problem, Step, padded};

use super::plan::Pool;
use super::{Flags, Graph, Operation, PoolId, Requests, Rules, Tensor, TensorId};

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
    /// Is memory shared that ggml would not share?
    pub beyond_ggml: bool,
}

/// Finds the lifetimes of all tensors of `graph` that need memory. Asks for the size of each once a pool.
pub fn lifetimes(graph: &Graph, pools: &[Pool], requests: Requests<'_>, sizes: &mut dyn Sizes) -> Lifetimes {
    let mut walk = Walk::new(graph, pools, sizes);
    for (&leaf, &pool) in graph.leafs().iter().zip(requests.leafs) {
        walk.give_memory(leaf, pool, 0);
    }
    walk.count_readers(requests.nodes);
    walk.free_unread_inputs();
    for (step, (&node, &pool)) in (0..).zip(graph.nodes().iter().zip(requests.nodes)) {
        for &source in graph.sources(node) {
            walk.give_memory(source, pool, step);
        }
        walk.give_memory_to_node(node, pool, step);
        for &source in graph.sources(node) {
            walk.finish_read(source, step);
        }
    }
    Lifetimes { problems: walk.problems, homes: walk.homes, beyond_ggml: walk.beyond_ggml }
}

/// What the walk knows of a tensor. Small, since the walk jumps between them.
#[derive(Clone, Copy, Default)]
struct State {
    /// Mentions as a source that are still to come.
    reads: u32,
    /// Views of this root that somebody still may read.
    views: u32,
    /// The step that computes it; step 0 also for what has its value from the start.
    computed: Step,
    /// Memory is to be planned for it, and has not been yet.
    waits: bool,
    /// It lies in the memory of another.
    is_view: bool,
    /// It has memory from the start.
    is_input: bool,
    /// Is this view among `views` of its root?
    counted: bool,
    /// Does its memory belong to it, not to a node computed in its place?
    owner: bool,
    /// Must its memory last to the end: OUTPUT, or the root of an OUTPUT view?
    kept: bool,
}

struct Walk<'a> {
    graph: &'a Graph,
    pools: &'a [Pool],
    sizes: &'a mut dyn Sizes,
    states: Vec<State>,
    problems: Vec<Problem>,
    homes: Vec<Option<Home>>,
    /// Padded bytes that each block holds now, by pool.
    held: Vec<Vec<Bytes>>,
    beyond_ggml: bool,
}

/// Memory that a node may take over.
#[derive(Clone, Copy)]
struct Donor {
    /// The source through which the node is computed in place.
    source: TensorId,
    /// The owner of the memory: the source, or what it is a view of.
    root: TensorId,
    /// Its home; once it is known to fit, that of the node.
    home: Home,
    /// ggml would not take it over.
    beyond_ggml: bool,
}

impl<'a> Walk<'a> {
    fn new(graph: &'a Graph, pools: &'a [Pool], sizes: &'a mut dyn Sizes) -> Self {
        let count = graph.tensors().len();
        let state = |tensor: &Tensor| State {
            waits: tensor.is_owned(),
            is_view: tensor.view.is_some(),
            is_input: tensor.flags.has(Flags::INPUT),
            kept: tensor.flags.has(Flags::OUTPUT),
            ..State::default()
        };
        let mut states: Vec<State> = graph.tensors().iter().map(state).collect();
        for view in graph.tensors().iter().filter_map(|it| it.view.filter(|_| it.flags.has(Flags::OUTPUT))) {
            states[view.root as usize].kept = true;
        }
        for (step, &node) in (0..).zip(graph.nodes()) {
            states[node as usize].computed = step;
        }
        Self {
            graph,
            pools,
            sizes,
            states,
            problems: pools.iter().map(|pool| Problem::new(pool.alignment, pool.max_chunk)).collect(),
            homes: vec![None; count],
            held: vec![Vec::new(); pools.len()],
            beyond_ggml: false,
        }
    }

    fn rules(&self, pool: PoolId) -> Rules {
        self.pools[pool as usize].rules
    }

    /// Counts mentions and views, and gives inputs their memory from the start.
    fn count_readers(&mut self, pools: &[PoolId]) {
        let graph = self.graph;
        for (&node, &pool) in graph.nodes().iter().zip(pools) {
            if self.states[node as usize].is_view && !graph.tensor(node).is_marker() {
                self.count_view(node);
            }
            if self.states[node as usize].is_input {
                self.give_memory(node, pool, 0);
            }
            for &source in graph.sources(node) {
                let state = &mut self.states[source as usize];
                state.reads += 1;
                let State { is_view, is_input, .. } = *state;
                if is_view {
                    self.count_view(source);
                }
                if is_input {
                    self.give_memory(source, pool, 0);
                }
            }
        }
    }

    fn count_view(&mut self, id: TensorId) {
        let state = &mut self.states[id as usize];
        if state.is_view && !state.counted {
            state.counted = true;
            self.states[self.graph.root(id) as usize].views += 1;
        }
    }

    /// An input that nobody reads is written before the first step, and may be overwritten in the second.
    fn free_unread_inputs(&mut self) {
        for &leaf in self.graph.leafs() {
            let State { reads, views, kept, .. } = self.states[leaf as usize];
            let Some(home) = self.homes[leaf as usize] else { continue };
            let is_input = self.graph.tensor(leaf).flags.has(Flags::INPUT);
            if is_input && reads == 0 && views == 0 && !kept && self.rules(home.pool).unread_inputs {
                self.states[leaf as usize].owner = false;
                self.problems[home.pool as usize].end(home.block, 1);
                self.beyond_ggml = true;
            }
        }
    }

    /// Memory of its own, unless it has some or needs none.
    fn give_memory(&mut self, id: TensorId, pool: PoolId, step: Step) {
        if self.states[id as usize].waits {
            let alloc_size = self.sizes.alloc_size(id, pool);
            self.give_block(id, pool, step, alloc_size);
        }
    }

    fn give_block(&mut self, id: TensorId, pool: PoolId, step: Step, alloc_size: Bytes) {
        let size = padded(alloc_size, self.pools[pool as usize].alignment);
        let block = self.problems[pool as usize].add(Block { size, birth: step, death: self.graph.steps() });
        self.held[pool as usize].push(size);
        self.settle(id, Home { pool, block, within: 0, alloc_size, in_place_of: None });
    }

    fn settle(&mut self, id: TensorId, home: Home) {
        self.homes[id as usize] = Some(home);
        self.states[id as usize].owner = true;
        self.states[id as usize].waits = false;
    }

    fn give_memory_to_node(&mut self, node: TensorId, pool: PoolId, step: Step) {
        if !self.states[node as usize].waits {
            return;
        }
        let mut asked = None;
        match self.donor(node, pool, step, &mut asked) {
            Some(donor) => self.take_over(node, donor, step),
            None => {
                let alloc_size = self.alloc_size(node, pool, &mut asked);
                self.give_block(node, pool, step, alloc_size);
            }
        }
    }

    /// The size of a node, which is asked for once a pool.
    fn alloc_size(&mut self, node: TensorId, pool: PoolId, asked: &mut Option<(PoolId, Bytes)>) -> Bytes {
        match *asked {
            Some((known, size)) if known == pool => size,
            _ => {
                let size = self.sizes.alloc_size(node, pool);
                *asked = Some((pool, size));
                size
            }
        }
    }

    /// Whose memory to take over. Views come last: a node then moves to another pool exactly when ggml would move it,
    /// so that no pool grows beyond what ggml needs.
    fn donor(
        &mut self,
        node: TensorId,
        pool: PoolId,
        step: Step,
        asked: &mut Option<(PoolId, Bytes)>,
    ) -> Option<Donor> {
        let graph = self.graph;
        if matches!(graph.tensor(node).operation, Operation::Marker | Operation::Other | Operation::Concat) {
            return None;
        }
        let mut best: Option<Donor> = None;
        for (slot, &source) in graph.sources(node).iter().enumerate() {
            let Some(donor) = self.direct_donor(node, slot, source, pool, step) else { continue };
            let Some(donor) = self.fitting(node, donor, asked) else { continue };
            // Only within the pool that ggml would choose.
            best = match best {
                None => Some(donor),
                Some(first) if first.home.pool == donor.home.pool && self.is_better(donor, first, step) => {
                    Some(Donor { beyond_ggml: true, ..donor })
                }
                first => first,
            };
            if !self.rules(donor.home.pool).oldest_source {
                break;
            }
        }
        if best.is_some() {
            return best;
        }
        graph.sources(node).iter().enumerate().find_map(|(slot, &source)| {
            let donor = self.donor_through_view(node, slot, source, pool, step)?;
            self.fitting(node, donor, asked)
        })
    }

    /// The donor with the size of the node in its pool, when there is room for that.
    fn fitting(&mut self, node: TensorId, donor: Donor, asked: &mut Option<(PoolId, Bytes)>) -> Option<Donor> {
        let Home { pool, block, .. } = donor.home;
        let alloc_size = self.alloc_size(node, pool, asked);
        let size = padded(alloc_size, self.pools[pool as usize].alignment);
        let home = Home { alloc_size, in_place_of: Some(donor.source), ..donor.home };
        (size <= self.held[pool as usize][block as usize]).then_some(Donor { home, ..donor })
    }

    /// Backends may fuse a node with the one before it, and then the result must lie where that one's would. Otherwise
    /// the older block is better.
    fn is_better(&self, donor: Donor, than: Donor, step: Step) -> bool {
        let may_be_fused = |donor: Donor| {
            let operation = self.graph.tensor(donor.source).operation;
            operation.is_listed() && self.states[donor.source as usize].computed + 1 == step
        };
        !may_be_fused(than) && (may_be_fused(donor) || self.is_older(donor.home, than.home))
    }

    fn is_older(&self, one: Home, other: Home) -> bool {
        let blocks = self.problems[one.pool as usize].blocks();
        blocks[one.block as usize].birth < blocks[other.block as usize].birth
    }

    /// A source that is no view and that nobody reads after this node.
    fn direct_donor(&self, node: TensorId, slot: usize, source: TensorId, pool: PoolId, step: Step) -> Option<Donor> {
        if !self.is_last_reader(source, step) || !self.may_be_taken(source, step) {
            return None;
        }
        let home = self.homes[source as usize]?;
        let operation = self.graph.tensor(node).operation;
        let listed = operation.is_listed();
        let right = self.rules(home.pool).allow(operation, slot)
            // What ggml would not do must not move a node to another pool.
            && (listed || home.pool == pool)
            && self.graph.look_alike(source, node);
        right.then_some(Donor { source, root: source, home, beyond_ggml: !listed })
    }

    /// The root that a source is a view of, when nobody reads either after this node.
    fn donor_through_view(
        &self,
        node: TensorId,
        slot: usize,
        source: TensorId,
        pool: PoolId,
        step: Step,
    ) -> Option<Donor> {
        if !self.states[source as usize].is_view {
            return None;
        }
        let view = self.graph.tensor(source).view?;
        let home = self.homes[view.root as usize]?;
        let rules = self.rules(home.pool);
        let root = &self.states[view.root as usize];
        let right = view.offset == 0
            && root.reads == 0
            && root.views == 1
            && self.states[source as usize].counted
            && home.pool == pool
            && rules.views
            && rules.allow(self.graph.tensor(node).operation, slot)
            && self.is_last_reader(source, step)
            && self.may_be_taken(view.root, step)
            && self.graph.look_alike(source, node);
        right.then_some(Donor { source, root: view.root, home, beyond_ggml: true })
    }

    /// Will nobody read `source` after this step, at which a node reads it?
    fn is_last_reader(&self, source: TensorId, step: Step) -> bool {
        let state = &self.states[source as usize];
        state.reads == 1 && state.views == 0 && state.computed <= step
    }

    fn may_be_taken(&self, donor: TensorId, step: Step) -> bool {
        let state = &self.states[donor as usize];
        state.owner && !state.kept && state.computed <= step
    }

    /// Moves `node` into the memory of `donor`, and frees what it does not fill.
    fn take_over(&mut self, node: TensorId, donor: Donor, step: Step) {
        let home = donor.home;
        let size = padded(home.alloc_size, self.pools[home.pool as usize].alignment);
        let held = &mut self.held[home.pool as usize][home.block as usize];
        if size < *held {
            *held = size;
            self.problems[home.pool as usize].shrink(home.block, step + 1, size);
        }
        self.states[donor.root as usize].owner = false;
        self.settle(node, home);
        self.beyond_ggml |= donor.beyond_ggml;
    }

    /// One mention of `source` is done; frees what nobody will read any more.
    fn finish_read(&mut self, source: TensorId, step: Step) {
        let state = &mut self.states[source as usize];
        state.reads -= 1;
        if state.reads > 0 || state.views > 0 || state.computed > step {
            return;
        }
        if !state.is_view {
            self.free(source, step);
            return;
        }
        let id = self.graph.root(source);
        let root = &mut self.states[id as usize];
        root.views -= 1;
        if root.views == 0 && root.reads == 0 {
            self.free(id, step);
        }
    }

    fn free(&mut self, id: TensorId, step: Step) {
        let state = &mut self.states[id as usize];
        if state.owner && !state.kept && state.computed <= step {
            state.owner = false;
            if let Some(home) = self.homes[id as usize] {
                // Backends fuse a normalization with the product behind it, which then reads what that one reads. In
                // place both are where their source is; where nothing is in place, the source stays a step longer.
                let longer = if self.rules(home.pool).in_place { 1 } else { 2 };
                self.problems[home.pool as usize].end(home.block, (step + longer).min(self.graph.steps()));
            }
        }
    }
}
