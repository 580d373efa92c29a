//! Which tensors of a graph are dumped.

use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::graph::{Flags, NamePattern};

/// The list of a graph that a tensor is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    Nodes,
    Leafs,
}

impl List {
    /// Returns the word for a member of the list, in file names and in the index.
    pub fn member(self) -> &'static str {
        match self {
            Self::Nodes => "node",
            Self::Leafs => "leaf",
        }
    }
}

/// A tensor to be dumped.
#[derive(Clone, Debug)]
pub struct Selected<'g> {
    pub list: List,
    /// Its position in the list.
    pub index: usize,
    pub tensor: TensorRef<'g>,
}

/// Returns `true` if the name of a tensor matches.
pub fn is_selected(tensor: TensorRef<'_>, pattern: &NamePattern) -> bool {
    tensor.with_name(|name| pattern.matches(name.to_bytes()))
}

/// Returns the nodes that were computed and the inputs whose names match. Other leafs, usually weights and caches, do
/// not count.
pub fn select<'g>(graph: GraphRef<'g>, pattern: &NamePattern) -> Vec<Selected<'g>> {
    let knows_flag = graph.nodes.iter().any(|node| is_flagged(*node, Flags::COMPUTE));
    let nodes = select_from(List::Nodes, graph.nodes, |node| !knows_flag || is_flagged(node, Flags::COMPUTE));
    let inputs = select_from(List::Leafs, graph.leafs, |leaf| is_flagged(leaf, Flags::INPUT));
    nodes.chain(inputs).filter(|one| is_selected(one.tensor, pattern)).collect()
}

fn select_from<'g>(
    list: List,
    tensors: &'g [TensorRef<'g>],
    is_candidate: impl Fn(TensorRef<'g>) -> bool,
) -> impl Iterator<Item = Selected<'g>> {
    let all = tensors.iter().enumerate().map(move |(index, &tensor)| Selected { list, index, tensor });
    all.filter(move |one| is_candidate(one.tensor))
}

fn is_flagged(tensor: TensorRef<'_>, flag: Flags) -> bool {
    Flags(tensor.flags()).has(flag)
}
