//! The buffers that the program requests for leafs and nodes.

use std::borrow::Cow;

use crate::graph::{BufferIndex, Graph};

/// The buffers that are wanted for leafs and nodes; both empty where there is one buffer only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Requested {
    /// By leaf.
    pub leafs: Vec<BufferIndex>,
    /// By node.
    pub nodes: Vec<BufferIndex>,
}

impl Requested {
    /// The same with a buffer for every leaf and node of `graph`.
    pub fn of_all(&self, graph: &Graph) -> Cow<'_, Self> {
        if !self.leafs.is_empty() || !self.nodes.is_empty() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self { leafs: vec![0; graph.leafs().len()], nodes: vec![0; graph.nodes().len()] })
    }

    /// The buffer wanted for a tensor, by its position among leafs and nodes.
    pub fn buffer(&self, position: usize) -> BufferIndex {
        let buffer = self.leafs.get(position).or_else(|| self.nodes.get(position.checked_sub(self.leafs.len())?));
        buffer.copied().unwrap_or(0)
    }
}
