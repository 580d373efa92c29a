//! The buffers that the program requests for leafs and nodes.

use std::borrow::Cow;

use crate::graph::{BufferIndex, Graph};
use crate::placement::refill;

/// The buffers requested for leafs and nodes; both lists are empty if there is only one buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Requested {
    /// By leaf.
    pub leafs: Vec<BufferIndex>,
    /// By node.
    pub nodes: Vec<BufferIndex>,
}

impl Requested {
    /// Returns the requests with a buffer for every leaf and node of `graph`, also if there is only one buffer.
    pub fn of_all(&self, graph: &Graph) -> Cow<'_, Self> {
        if self.is_listed() {
            return Cow::Borrowed(self);
        }
        let mut all = Self::default();
        all.fill(graph);
        Cow::Owned(all)
    }

    /// Returns `true` if there are several buffers.
    pub fn is_listed(&self) -> bool {
        !self.leafs.is_empty() || !self.nodes.is_empty()
    }

    /// Requests the first buffer for every leaf and node.
    pub fn fill(&mut self, graph: &Graph) -> &Self {
        refill(&mut self.leafs, 0, graph.leafs().len());
        refill(&mut self.nodes, 0, graph.nodes().len());
        self
    }

    /// Returns the buffer requested for a tensor, by its position in the leafs followed by the nodes.
    pub fn buffer(&self, position: usize) -> BufferIndex {
        let buffer = self.leafs.get(position).or_else(|| self.nodes.get(position.checked_sub(self.leafs.len())?));
        buffer.copied().unwrap_or(0)
    }
}
