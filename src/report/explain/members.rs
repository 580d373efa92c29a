//! The tensors of each block.

use crate::graph::{GraphPlan, TensorId};
use crate::placement::BlockId;

/// By buffer and block: the tensors that lie in it, in the order of their ids.
#[derive(Debug)]
pub struct Members {
    /// By buffer and block: where its tensors start in `tensors`; the end of the last block follows.
    starts: Vec<Vec<usize>>,
    tensors: Vec<TensorId>,
    /// By buffer: the inactive nodes that own memory.
    inactive_owners: Vec<Vec<TensorId>>,
}

impl Members {
    /// Groups the tensors of a plan.
    pub fn of(plan: &GraphPlan) -> Self {
        let mut starts: Vec<Vec<usize>> =
            plan.problems.iter().map(|problem| vec![0; problem.blocks().len() + 1]).collect();
        let allocations =
            || (0..).zip(&plan.allocations).filter_map(|(id, allocation): (TensorId, _)| Some((id, (*allocation)?)));
        allocations().for_each(|(_, allocation)| starts[allocation.buffer as usize][allocation.block as usize] += 1);
        let mut end = 0;
        for count in starts.iter_mut().flatten() {
            end += std::mem::replace(count, end);
        }
        let (mut next, mut tensors) = (starts.clone(), vec![0; end]);
        for (id, allocation) in allocations() {
            let next = &mut next[allocation.buffer as usize][allocation.block as usize];
            tensors[*next] = id;
            *next += 1;
        }
        let mut inactive_owners = vec![Vec::new(); plan.buffers.len()];
        plan.inactive_owners.iter().for_each(|node| inactive_owners[node.buffer as usize].push(node.tensor));
        Self { starts, tensors, inactive_owners }
    }

    /// Returns the tensors in a block of a buffer.
    pub fn of_block(&self, buffer: usize, block: BlockId) -> &[TensorId] {
        let (starts, block) = (&self.starts[buffer], block as usize);
        &self.tensors[starts[block]..starts[block + 1]]
    }

    /// Returns the inactive nodes that own memory in a buffer.
    pub fn inactive_owners(&self, buffer: usize) -> &[TensorId] {
        &self.inactive_owners[buffer]
    }

    /// Returns the tensors in a buffer, block by block.
    pub fn of_buffer(&self, buffer: usize) -> &[TensorId] {
        match self.starts[buffer].as_slice() {
            [first, .., last] => &self.tensors[*first..*last],
            _ => &[],
        }
    }
}
