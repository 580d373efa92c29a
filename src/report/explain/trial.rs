//! What a graph needs once it is changed.

use crate::graph::{GraphPlan, Home, Pool, PoolId, Requests, TensorId, plan, shared_lifetimes};
use crate::placement::{Bytes, Problem, loads, lower_bound};

use super::Node;
use super::case::Case;
use super::draft::Draft;
use super::peak::worst;

/// What a changed graph needs.
#[derive(Debug)]
pub struct Trial {
    /// By pool: bytes alive at the worst step.
    pub bounds: Vec<Bytes>,
    /// By pool: bytes alive at each step.
    loads: Vec<Vec<Bytes>>,
    /// By step: the node, or the one of the given graph that it is made after.
    nodes: Vec<TensorId>,
    /// The same and the step, sorted.
    steps: Vec<(TensorId, usize)>,
    /// By tensor of the changed graph.
    pub homes: Vec<Option<Home>>,
}

impl Case<'_> {
    /// Finds out what a changed graph needs. Nothing when it has too many bytes to be planned.
    ///
    /// Where its lifetimes promise less in some pool, it is planned: what is told is true of the plan that would be made.
    pub fn try_draft(&self, draft: &Draft, pools: &[Pool]) -> Option<Trial> {
        let graph = draft.graph();
        let (leafs, nodes) = (draft.pools(&draft.leafs), draft.pools(&draft.nodes));
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        let mut sizes = |id: TensorId, pool: PoolId| {
            let original = draft.tensors[id as usize].original;
            self.subject.snapshot.tensors[original as usize].size_in(pool)
        };
        let found = shared_lifetimes(&graph, pools, requests, &mut sizes).ok()?;
        let promises = |(problem, given): (&Problem, &Bytes)| lower_bound(problem) < *given;
        let given = self.subject.plan.pools.iter().map(|pool| &pool.lower_bound);
        if found.problems.iter().zip(given).any(promises) {
            let GraphPlan { problems, homes, .. } = plan(&graph, pools, requests, &mut sizes).ok()?;
            return Some(Trial::new(draft, &problems, homes));
        }
        Some(Trial::new(draft, &found.problems, found.homes))
    }

    /// Bytes alive at the worst step of a pool in the given plan.
    pub fn bound(&self, pool: usize) -> Bytes {
        self.subject.plan.pools[pool].lower_bound
    }

    /// The worst step of a pool.
    pub fn worst_of(&self, trial: &Trial, pool: usize) -> Node {
        let step = worst(&trial.loads[pool]).map_or(0, |(step, _)| step);
        Node { step, tensor: trial.nodes.get(step as usize).map(|&node| self.named(node)) }
    }
}

impl Trial {
    fn new(draft: &Draft, problems: &[Problem], homes: Vec<Option<Home>>) -> Self {
        let nodes: Vec<TensorId> = draft.nodes.iter().map(|&id| draft.tensors[id as usize].original).collect();
        let mut steps: Vec<_> = nodes.iter().copied().zip(0..).collect();
        steps.sort_unstable();
        Self {
            bounds: problems.iter().map(lower_bound).collect(),
            loads: problems.iter().map(loads).collect(),
            nodes,
            steps,
            homes,
        }
    }

    /// The most bytes alive when `node` of the given graph runs, or what is made after it.
    pub fn load_at(&self, pool: usize, node: TensorId) -> Option<Bytes> {
        let first = self.steps.partition_point(|&(other, _)| other < node);
        let steps = self.steps[first..].iter().take_while(|&&(other, _)| other == node);
        steps.map(|&(_, step)| self.loads[pool].get(step).copied().unwrap_or(0)).max()
    }
}
