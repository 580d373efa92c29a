//! The memory that a changed graph needs.

use crate::graph::{
    Allocation, BufferIndex, BufferSpec, Edited, GraphEdit, GraphPlan, Requests, Sizes, TensorId, Wishes, Workspace,
    plan, shared_live_ranges,
};
use crate::placement::{Bytes, MemoryProfile, Problem, lower_bound};

use super::case::Case;
use super::named::Node;

/// The memory that a changed graph needs.
#[derive(Debug)]
pub struct Trial {
    /// By buffer: live bytes at the peak.
    pub bounds: Vec<Bytes>,
    /// By buffer.
    profiles: Vec<MemoryProfile>,
    /// By step: the node of the given graph that runs, or whose copy runs.
    nodes: Vec<TensorId>,
    /// `nodes` with their steps, sorted.
    steps: Vec<(TensorId, usize)>,
    /// By tensor of the changed graph: the tensor of the given graph that it is, or is a copy of.
    pub origins: Vec<TensorId>,
    /// By tensor of the changed graph: its allocation.
    pub allocations: Vec<Option<Allocation>>,
}

impl Case<'_> {
    /// Computes the bytes that a changed graph needs; `None` if its bytes overflow.
    ///
    /// If its live ranges alone need less in some buffer, it is planned in full, so the result holds for a real plan.
    pub fn try_edit(&self, edit: GraphEdit, buffers: &[BufferSpec]) -> Option<Trial> {
        self.try_edited(edit.finish(), buffers)
    }

    /// Does so for a graph whose edit is finished.
    pub fn try_edited(&self, edited: Edited, buffers: &[BufferSpec]) -> Option<Trial> {
        let Edited { graph, origins, .. } = &edited;
        let tensors = &self.planned.snapshot.tensors;
        let requested = |list: &[TensorId]| -> Vec<BufferIndex> {
            list.iter().map(|&id| tensors[origins[id as usize] as usize].buffer).collect()
        };
        let (leafs, nodes) = (requested(graph.leafs()), requested(graph.nodes()));
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        let sizes: &mut dyn Sizes =
            &mut |id: TensorId, buffer: BufferIndex| tensors[origins[id as usize] as usize].size_in(buffer);
        let mut found = shared_live_ranges(graph, buffers, requests, sizes).ok()?;
        let problems = found.take_problems(buffers);
        let needs_less = |(problem, given): (&Problem, &Bytes)| lower_bound(problem) < *given;
        let given = self.planned.plan.buffers.iter().map(|buffer| &buffer.lower_bound);
        if problems.iter().zip(given).any(needs_less) {
            let GraphPlan { problems, allocations, .. } =
                plan(graph, buffers, requests, sizes, Wishes::default(), &mut Workspace::default()).ok()?;
            return Some(Trial::new(edited, &problems, allocations));
        }
        Some(Trial::new(edited, &problems, found.allocations))
    }

    /// Returns the live bytes at the peak of a buffer in the given plan.
    pub fn bound(&self, buffer: usize) -> Bytes {
        self.planned.plan.buffers[buffer].lower_bound
    }

    /// Returns the peak of a buffer in a changed graph.
    pub fn peak_of(&self, trial: &Trial, buffer: usize) -> Node {
        let step = trial.profiles[buffer].peak().map_or(0, |(step, _)| step);
        Node { step, tensor: trial.nodes.get(step as usize).map(|&node| self.named(node)) }
    }
}

impl Trial {
    fn new(edited: Edited, problems: &[Problem], allocations: Vec<Option<Allocation>>) -> Self {
        let Edited { graph, origins, .. } = edited;
        let nodes: Vec<TensorId> = graph.nodes().iter().map(|&id| origins[id as usize]).collect();
        let mut steps: Vec<_> = nodes.iter().copied().zip(0..).collect();
        steps.sort_unstable();
        Self {
            bounds: problems.iter().map(lower_bound).collect(),
            profiles: problems.iter().map(MemoryProfile::of).collect(),
            nodes,
            steps,
            origins,
            allocations,
        }
    }

    /// Returns the most live bytes while `node` of the given graph, or a copy of it, runs.
    pub fn load_at(&self, buffer: usize, node: TensorId) -> Option<Bytes> {
        let first = self.steps.partition_point(|&(other, _)| other < node);
        let steps = self.steps[first..].iter().take_while(|&&(other, _)| other == node);
        steps.map(|&(_, step)| self.profiles[buffer].live.get(step).copied().unwrap_or(0)).max()
    }
}
