//! The retained tensors of a graph.

use crate::graph::TensorId;

/// A tensor whose value can be read after its last use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Retained {
    /// The tensor; for a view, the bytes in its root.
    pub tensor: TensorId,
    /// The node that ends it: the value can be read until that node has run, and the node does not write over it.
    /// `None`, or a tensor that is not a node of the graph: to the end of the graph.
    pub until: Option<TensorId>,
}

/// The retained tensors of a graph, each once; empty for nearly all graphs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// By tensor.
    list: Vec<Retained>,
    /// The nodes that end retentions, each with the retained tensor; sorted.
    ends: Vec<(TensorId, TensorId)>,
}

impl Retention {
    /// Returns `true` if no tensor is retained.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the retained tensors, by id.
    pub fn list(&self) -> &[Retained] {
        &self.list
    }

    /// Returns how a tensor is retained, if it is.
    pub fn of(&self, tensor: TensorId) -> Option<Retained> {
        let found = self.list.binary_search_by_key(&tensor, |retained| retained.tensor);
        found.ok().map(|at| self.list[at])
    }

    /// Returns the tensors that are retained until `node` has run.
    pub fn until(&self, node: TensorId) -> impl Iterator<Item = TensorId> {
        let first = self.ends.partition_point(|&(end, _)| end < node);
        self.ends[first..].iter().take_while(move |&&(end, _)| end == node).map(|&(_, tensor)| tensor)
    }

    /// Returns the retention without these tensors.
    #[must_use]
    pub fn without(&self, tensors: &[TensorId]) -> Self {
        self.list.iter().copied().filter(|retained| !tensors.contains(&retained.tensor)).collect()
    }
}

/// Collects retained tensors; where a tensor is retained twice, the last one counts.
impl FromIterator<Retained> for Retention {
    fn from_iter<I: IntoIterator<Item = Retained>>(retained: I) -> Self {
        let mut list: Vec<Retained> = retained.into_iter().collect();
        list.sort_by_key(|retained| retained.tensor);
        list.reverse();
        list.dedup_by_key(|retained| retained.tensor);
        list.reverse();
        let mut ends: Vec<_> = list.iter().filter_map(|retained| Some((retained.until?, retained.tensor))).collect();
        ends.sort_unstable();
        Self { list, ends }
    }
}
