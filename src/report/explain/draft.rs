//! A graph that can be edited.

use std::collections::HashSet;

use crate::graph::snapshot::Snapshot;
use crate::graph::{BufferIndex, Graph, Layout, Operation, Retention, Tensor, TensorId};

/// A tensor of a [`Draft`].
#[derive(Clone, Debug)]
pub struct Drafted {
    pub tensor: Tensor,
    pub layout: Layout,
    pub sources: Vec<TensorId>,
    /// The buffer that is requested for it.
    pub buffer: BufferIndex,
    /// The tensor of the given graph that it is, or is a copy of.
    pub original: TensorId,
}

/// An editable copy of a graph. A tensor keeps the id that it has in the given graph.
#[derive(Clone, Debug)]
pub struct Draft {
    pub tensors: Vec<Drafted>,
    pub leafs: Vec<TensorId>,
    pub nodes: Vec<TensorId>,
    pub retention: Retention,
}

impl Draft {
    /// Copies a graph.
    pub fn of(snapshot: &Snapshot) -> Self {
        let Snapshot { graph, tensors, .. } = snapshot;
        let drafted = (0..).zip(tensors).map(|(id, facts)| Drafted {
            tensor: graph.tensor(id).clone(),
            layout: *graph.layout(id),
            sources: graph.sources(id).to_vec(),
            buffer: facts.buffer,
            original: id,
        });
        let (leafs, nodes) = (graph.leafs().to_vec(), graph.nodes().to_vec());
        Self { tensors: drafted.collect(), leafs, nodes, retention: graph.retention().clone() }
    }

    /// Builds the edited graph.
    pub fn graph(&self) -> Graph {
        let mut graph = Graph::with_capacity(self.tensors.len());
        for drafted in &self.tensors {
            graph.add(drafted.tensor.clone(), drafted.layout.by_ref());
            graph.push_sources(drafted.sources.iter().copied());
        }
        graph.list_leafs(self.leafs.iter().copied());
        graph.list_nodes(self.nodes.iter().copied());
        graph.set_retention(self.retention.clone());
        graph
    }

    /// Returns the requested buffers, by position in `list`.
    pub fn buffers(&self, list: &[TensorId]) -> Vec<BufferIndex> {
        list.iter().map(|&id| self.tensors[id as usize].buffer).collect()
    }

    pub fn tensor_mut(&mut self, id: TensorId) -> &mut Drafted {
        &mut self.tensors[id as usize]
    }

    /// Adds a copy of a tensor, in no list.
    pub fn add_copy_of(&mut self, id: TensorId) -> TensorId {
        let copy = self.tensors[id as usize].clone();
        self.tensors.push(copy);
        TensorId::try_from(self.tensors.len() - 1).expect("fewer than 2^32 tensors")
    }

    /// Removes tensors from the lists.
    pub fn unlist(&mut self, ids: &[TensorId]) {
        let ids: HashSet<TensorId> = ids.iter().copied().collect();
        self.leafs.retain(|id| !ids.contains(id));
        self.nodes.retain(|id| !ids.contains(id));
    }

    /// Inserts tensors into the nodes right before `node`, in the given order.
    pub fn list_before(&mut self, node: TensorId, ids: &[TensorId]) {
        let at = self.nodes.iter().position(|&other| other == node).unwrap_or(self.nodes.len());
        self.nodes.splice(at..at, ids.iter().copied());
    }

    /// Returns the graph with no node computed in place.
    pub fn without_in_place(mut self) -> Self {
        for drafted in &mut self.tensors {
            if drafted.tensor.operation != Operation::Marker {
                drafted.tensor.operation = Operation::Other;
            }
        }
        self
    }
}
