//! Bytes that are live at a node in every order of the nodes.

use crate::graph::TensorId;
use crate::placement::{Bytes, Step};

use crate::report::explain::case::Case;
use crate::report::explain::named::Node;

/// Maximum number of nodes that are considered for a peak.
const MAX_NODES: usize = 16;

/// Bytes that are live when a node runs, in whatever order the nodes of the graph run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct Inherent {
    /// The node, at its step in the given order.
    pub node: Node,
    /// Bytes of the node's sources and of its result.
    pub of_node: Bytes,
    /// Bytes of tensors that have a value before the node in every order, and are read after it in every order or kept
    /// to the end. Inputs that nodes read only later are not in it: they can be filled later.
    pub across: Bytes,
}

impl Inherent {
    /// Returns the live bytes that no order goes below.
    pub fn bytes(&self) -> Bytes {
        self.of_node + self.across
    }
}

impl Case<'_> {
    /// Returns the most that is live in a buffer in every order of the nodes, at the node of the peak or at one that
    /// uses the largest tensor there.
    pub fn inherent(&self, buffer: usize, peak: Step) -> Option<Inherent> {
        let mut steps = vec![peak];
        for (block, _) in self.blocks_at(buffer, peak) {
            for id in self.tensors_at(buffer, block, peak) {
                steps.extend(&self.uses.accesses[id as usize]);
            }
            if steps.len() >= MAX_NODES {
                break;
            }
        }
        steps.truncate(MAX_NODES);
        let found = steps.into_iter().map(|step| self.inherent_at(buffer, step));
        found.reduce(|most, other| if other.bytes() > most.bytes() { other } else { most })
    }

    /// Returns the bytes that are live in a buffer at the node of a step in every order of the nodes. Blocks count
    /// once, with the bytes of the largest tensor for which that holds.
    fn inherent_at(&self, buffer: usize, step: Step) -> Inherent {
        let mut found = Inherent { node: self.node(step), of_node: 0, across: 0 };
        let graph = &self.planned.snapshot.graph;
        let Some(&node) = graph.nodes().get(step as usize) else { return found };
        let sources: Vec<TensorId> = graph.sources(node).iter().map(|&source| graph.root(source)).collect();
        let before = closure(graph.nodes().len(), step, |step| self.hazards().before(step));
        let after = closure(graph.nodes().len(), step, |step| self.hazards().after(step));
        let is_across = |id: TensorId| {
            let is_accessed = |steps: &[bool]| self.uses.accesses[id as usize].iter().any(|&step| steps[step as usize]);
            let is_before = self.uses.def(id).map_or_else(|| is_accessed(&before), |def| before[def as usize]);
            is_before && (self.uses.kept[id as usize].is_some() || is_accessed(&after))
        };
        // Another order may leave the node as the last one that reads such a source, so its result may be in place of it.
        let is_longer_live = |&id: &TensorId| self.uses.last_use(id).is_some_and(|last| last > step) && !is_across(id);
        let result = Some(graph.root(node)).filter(|_| !sources.iter().any(is_longer_live));
        for (block, held) in self.blocks_at(buffer, step) {
            let size = |&id: &TensorId| self.allocation(id, buffer).map_or(0, |it| self.bytes(it)).min(held);
            let tensors = self.tensors_at(buffer, block, step);
            let is_of_node = |id: &&TensorId| sources.contains(id) || result == Some(**id);
            let of_node = tensors.iter().filter(is_of_node).map(size).max();
            found.of_node += of_node.unwrap_or(0);
            found.across += match of_node {
                Some(_) => 0,
                None => tensors.iter().filter(|&&id| is_across(id)).map(size).max().unwrap_or(0),
            };
        }
        found
    }
}

/// Returns, by step, whether it follows from a step; the step itself does not.
fn closure<'a>(count: usize, step: Step, next: impl Fn(Step) -> &'a [Step]) -> Vec<bool> {
    let mut follows = vec![false; count];
    let mut waiting = next(step).to_vec();
    while let Some(step) = waiting.pop() {
        if !std::mem::replace(&mut follows[step as usize], true) {
            waiting.extend_from_slice(next(step));
        }
    }
    follows
}
