//! The tensors that own memory, and the nodes that touch each.

use std::ops::Range;

use crate::graph::{BufferIndex, BufferSpec, Flags, Graph, Requests, Sizes, TensorId};
use crate::placement::{Bytes, Step, padded};

/// A tensor that owns memory to plan, with its views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The tensor, which is not a view.
    pub tensor: TensorId,
    /// The buffer requested for it.
    pub buffer: BufferIndex,
    /// Bytes in that buffer, padded.
    pub size: Bytes,
    /// The first node that computes or uses the tensor or one of its views.
    pub first: Step,
    /// The last such node.
    pub last: Step,
    /// True if its value must be there before the first node or after the last: inputs, outputs, and results that no
    /// node uses.
    pub is_kept: bool,
}

impl Owner {
    /// Returns `true` if only nodes of `part` touch it.
    pub fn is_inside(&self, part: &Range<Step>) -> bool {
        !self.is_kept && self.first >= part.start && self.last < part.end
    }
}

/// Returns the owners of memory of `graph`, in the order of their tensors.
pub fn owners(graph: &Graph, buffers: &[BufferSpec], requests: Requests<'_>, sizes: &mut dyn Sizes) -> Vec<Owner> {
    let mut finder = Finder { graph, found: vec![None; graph.tensors().len()] };
    for (&leaf, &buffer) in graph.leafs().iter().zip(requests.leafs) {
        finder.found(leaf, buffer, 0).is_kept = true;
    }
    let mut is_node = vec![false; graph.tensors().len()];
    graph.nodes().iter().for_each(|&node| is_node[node as usize] = true);
    let is_used = used_by_others(graph);
    for (step, (&node, &buffer)) in (0..).zip(graph.nodes().iter().zip(requests.nodes)) {
        for &source in graph.sources(node) {
            let is_computed = is_node[graph.root(source) as usize];
            finder.found(source, buffer, step).is_kept |= !is_computed || has_outside_value(graph, source);
        }
        finder.found(node, buffer, step).is_kept |= !is_used[node as usize] || has_outside_value(graph, node);
    }
    let padded_size = |owner: &mut Owner| {
        let alignment = buffers[owner.buffer as usize].alignment;
        owner.size = padded(sizes.alloc_size(owner.tensor, owner.buffer), alignment);
    };
    let mut owners: Vec<Owner> = finder.found.into_iter().flatten().collect();
    owners.retain(|owner| graph.tensor(owner.tensor).is_owned());
    owners.iter_mut().for_each(padded_size);
    owners
}

/// Returns, by tensor, whether another node has it as a source: a cast has itself as one.
fn used_by_others(graph: &Graph) -> Vec<bool> {
    let mut is_used = vec![false; graph.tensors().len()];
    for &node in graph.nodes() {
        let others = graph.sources(node).iter().filter(|&&source| source != node);
        others.for_each(|&source| is_used[source as usize] = true);
    }
    is_used
}

/// Returns `true` if the program writes or reads the value of a tensor.
fn has_outside_value(graph: &Graph, tensor: TensorId) -> bool {
    let is_flagged = |id: TensorId| {
        let flags = graph.tensor(id).flags;
        flags.has(Flags::INPUT) || flags.has(Flags::OUTPUT)
    };
    let root = graph.root(tensor);
    let is_filled = graph.tensor(root).is_marker() && graph.sources(root).is_empty();
    is_filled || is_flagged(tensor) || is_flagged(root)
}

struct Finder<'a> {
    graph: &'a Graph,
    /// By tensor; views have the owner of their root.
    found: Vec<Option<Owner>>,
}

impl Finder<'_> {
    /// Records that the node at `step` touches a tensor, and returns the owner of its memory.
    fn found(&mut self, tensor: TensorId, buffer: BufferIndex, step: Step) -> &mut Owner {
        let tensor = self.graph.root(tensor);
        let new = Owner { tensor, buffer, size: 0, first: step, last: step, is_kept: false };
        let owner = self.found[tensor as usize].get_or_insert(new);
        owner.last = step;
        owner
    }
}
