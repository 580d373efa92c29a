//! Who has which block.

use crate::graph::plan::Pool;
use crate::graph::{Home, PoolId, Rules, TensorId, Unplaced};
use crate::placement::{Block, Bytes, Problem, Step, padded};

use super::donors::Donor;

/// The blocks so far, and who lives in them.
pub struct Memory {
    /// How many steps the graph takes.
    pub steps: Step,
    pub pools: Vec<PoolBlocks>,
    /// By tensor.
    pub homes: Vec<Option<Home>>,
    /// The inactive nodes so far that own memory, in the order of execution.
    pub unplaced: Vec<Unplaced>,
    /// Is memory shared that ggml would not share?
    pub beyond_ggml: bool,
}

/// The blocks of one pool.
pub struct PoolBlocks {
    pub problem: Problem,
    rules: Rules,
}

impl Memory {
    pub fn new(pools: &[Pool], tensors: usize, steps: Step) -> Self {
        // Most tensors are views, computed in place, or weights.
        let blocks = tensors / 3 / pools.len().max(1);
        let problem = |pool: &Pool| Problem::with_capacity(pool.alignment, pool.max_chunk, blocks);
        let pools = pools.iter().map(|pool| PoolBlocks { problem: problem(pool), rules: pool.rules }).collect();
        Self { steps, pools, homes: vec![None; tensors], unplaced: Vec::new(), beyond_ggml: false }
    }

    pub fn home(&self, tensor: TensorId) -> Option<&Home> {
        self.homes[tensor as usize].as_ref()
    }

    pub fn rules(&self, pool: PoolId) -> &Rules {
        &self.pools[pool as usize].rules
    }

    /// A block for `tensor` alone, from `birth` until nobody reads it any more.
    #[inline(always)]
    pub fn add(&mut self, tensor: TensorId, pool: PoolId, birth: Step, last_read: Step, alloc_size: Bytes) {
        let PoolBlocks { problem, rules } = &mut self.pools[pool as usize];
        let size = padded(alloc_size, problem.alignment());
        let block = problem.add(Block { size, birth, death: death(rules, last_read, self.steps) });
        self.homes[tensor as usize] = Some(Home { pool, block, within: 0, alloc_size, in_place_of: None });
    }

    /// Ends the block of an input that nobody reads, where the rules allow it: it is written before the first step, and
    /// may be overwritten in the second.
    pub fn end_unread(&mut self, input: TensorId) {
        let Some(home) = &self.homes[input as usize] else { return };
        let PoolBlocks { problem, rules } = &mut self.pools[home.pool as usize];
        if rules.unread_inputs {
            problem.end(home.block, 1);
            self.beyond_ggml = true;
        }
    }

    /// Does a tensor of that size fit into the block of `home`?
    #[inline(always)]
    pub fn fits(&self, alloc_size: Bytes, home: &Home) -> bool {
        let alignment = self.pools[home.pool as usize].problem.alignment();
        alloc_size <= home.alloc_size || padded(alloc_size, alignment) <= padded(home.alloc_size, alignment)
    }

    /// Moves `node`, computed at `step`, into the block of `donor`, which gives back what the node does not fill, and
    /// lasts until nobody reads the node any more.
    #[inline(always)]
    pub fn take_over(&mut self, node: TensorId, donor: Donor, step: Step, last_read: Step) {
        let Donor { source, pool, block, held, alloc_size, beyond_ggml } = donor;
        let PoolBlocks { problem, rules } = &mut self.pools[pool as usize];
        if alloc_size != held {
            let [held, size] = [held, alloc_size].map(|size| padded(size, problem.alignment()));
            if size < held {
                problem.shrink(block, step + 1, size);
            }
        }
        problem.end(block, death(rules, last_read, self.steps));
        self.homes[node as usize] = Some(Home { pool, block, within: 0, alloc_size, in_place_of: Some(source) });
        self.beyond_ggml |= beyond_ggml;
    }

    /// When the block of `home` is born.
    pub fn birth(&self, home: &Home) -> Step {
        self.pools[home.pool as usize].problem.blocks()[home.block as usize].birth
    }
}

/// When a block ends that is read for the last time then, in a graph of so many steps: with the graph where no step is the
/// last to read it.
#[inline]
fn death(rules: &Rules, last_read: Step, steps: Step) -> Step {
    // Backends fuse a normalization with the product behind it, which then reads what that one reads. In place both are
    // where their source is; where nothing is in place, the source stays a step longer.
    let longer = if rules.in_place { 1 } else { 2 };
    steps.min(steps.min(last_read) + longer)
}
