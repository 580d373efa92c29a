//! The tensors of each block.

use crate::graph::{GraphPlan, TensorId};
use crate::placement::BlockId;

/// By pool and block: the tensors that live in it, in the order of their ids.
#[derive(Debug)]
pub struct Members {
    /// By pool: by block, where its tensors start in `tensors`; one more at the end.
    starts: Vec<Vec<usize>>,
    tensors: Vec<TensorId>,
    /// By pool: the inactive nodes that own memory.
    unplaced: Vec<Vec<TensorId>>,
}

impl Members {
    /// Of a plan.
    pub fn of(plan: &GraphPlan) -> Self {
        let mut starts: Vec<Vec<usize>> =
            plan.problems.iter().map(|problem| vec![0; problem.blocks().len() + 1]).collect();
        let homes = || (0..).zip(&plan.homes).filter_map(|(id, home): (TensorId, _)| Some((id, (*home)?)));
        homes().for_each(|(_, home)| starts[home.pool as usize][home.block as usize] += 1);
        let mut end = 0;
        for count in starts.iter_mut().flatten() {
            end += std::mem::replace(count, end);
        }
        let (mut next, mut tensors) = (starts.clone(), vec![0; end]);
        for (id, home) in homes() {
            let next = &mut next[home.pool as usize][home.block as usize];
            tensors[*next] = id;
            *next += 1;
        }
        let mut unplaced = vec![Vec::new(); plan.pools.len()];
        plan.unplaced.iter().for_each(|node| unplaced[node.pool as usize].push(node.tensor));
        Self { starts, tensors, unplaced }
    }

    /// The tensors in a block of a pool.
    pub fn of_block(&self, pool: usize, block: BlockId) -> &[TensorId] {
        let (starts, block) = (&self.starts[pool], block as usize);
        &self.tensors[starts[block]..starts[block + 1]]
    }

    /// The inactive nodes that own memory in a pool.
    pub fn unplaced(&self, pool: usize) -> &[TensorId] {
        &self.unplaced[pool]
    }

    /// The tensors in a pool, block by block.
    pub fn of_pool(&self, pool: usize) -> &[TensorId] {
        match self.starts[pool].as_slice() {
            [first, .., last] => &self.tensors[*first..*last],
            _ => &[],
        }
    }
}
