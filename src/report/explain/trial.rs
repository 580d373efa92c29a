//! What a graph needs once it is changed.

use crate::graph::{Allocation, BufferIndex, BufferSpec, GraphPlan, Requests, TensorId, plan, shared_live_ranges};
use crate::placement::{Bytes, Problem, lower_bound, memory_profile};

use super::Node;
use super::case::Case;
use super::draft::Draft;
use super::peak::worst;

/// What a changed graph needs.
#[derive(Debug)]
pub struct Trial {
    /// By buffer: bytes alive at the worst step.
    pub bounds: Vec<Bytes>,
    /// By buffer: bytes alive at each step.
    loads: Vec<Vec<Bytes>>,
    /// By step: the node, or the one of the given graph that it is made after.
    nodes: Vec<TensorId>,
    /// The same and the step, sorted.
    steps: Vec<(TensorId, usize)>,
    /// By tensor of the changed graph.
    pub allocations: Vec<Option<Allocation>>,
}

impl Case<'_> {
    /// Finds out what a changed graph needs. Nothing when it has too many bytes to be planned.
    ///
    /// Where its live ranges promise less in some buffer, it is planned: what is told is true of the plan that would be made.
    pub fn try_draft(&self, draft: &Draft, buffers: &[BufferSpec]) -> Option<Trial> {
        let graph = draft.graph();
        let (leafs, nodes) = (draft.buffers(&draft.leafs), draft.buffers(&draft.nodes));
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        let mut sizes = |id: TensorId, buffer: BufferIndex| {
            let original = draft.tensors[id as usize].original;
            self.subject.snapshot.tensors[original as usize].size_in(buffer)
        };
        let found = shared_live_ranges(&graph, buffers, requests, &mut sizes).ok()?;
        let promises = |(problem, given): (&Problem, &Bytes)| lower_bound(problem) < *given;
        let given = self.subject.plan.buffers.iter().map(|buffer| &buffer.lower_bound);
        if found.problems.iter().zip(given).any(promises) {
            let GraphPlan { problems, allocations, .. } = plan(&graph, buffers, requests, &mut sizes).ok()?;
            return Some(Trial::new(draft, &problems, allocations));
        }
        Some(Trial::new(draft, &found.problems, found.allocations))
    }

    /// Bytes alive at the worst step of a buffer in the given plan.
    pub fn bound(&self, buffer: usize) -> Bytes {
        self.subject.plan.buffers[buffer].lower_bound
    }

    /// The worst step of a buffer.
    pub fn worst_of(&self, trial: &Trial, buffer: usize) -> Node {
        let step = worst(&trial.loads[buffer]).map_or(0, |(step, _)| step);
        Node { step, tensor: trial.nodes.get(step as usize).map(|&node| self.named(node)) }
    }
}

impl Trial {
    fn new(draft: &Draft, problems: &[Problem], allocations: Vec<Option<Allocation>>) -> Self {
        let nodes: Vec<TensorId> = draft.nodes.iter().map(|&id| draft.tensors[id as usize].original).collect();
        let mut steps: Vec<_> = nodes.iter().copied().zip(0..).collect();
        steps.sort_unstable();
        Self {
            bounds: problems.iter().map(lower_bound).collect(),
            loads: problems.iter().map(memory_profile).collect(),
            nodes,
            steps,
            allocations,
        }
    }

    /// The most bytes alive when `node` of the given graph runs, or what is made after it.
    pub fn load_at(&self, buffer: usize, node: TensorId) -> Option<Bytes> {
        let first = self.steps.partition_point(|&(other, _)| other < node);
        let steps = self.steps[first..].iter().take_while(|&&(other, _)| other == node);
        steps.map(|&(_, step)| self.loads[buffer].get(step).copied().unwrap_or(0)).max()
    }
}
