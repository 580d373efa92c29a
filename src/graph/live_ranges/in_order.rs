//! Graphs in which whatever a tensor refers to comes before it, as in nearly all: they tell at once who reads whom.

use crate::graph::{BufferIndex, Flags, Graph, Operation, Requests, Tensor, TensorId};
use crate::placement::Step;

use super::inactive::{Inactive, Readers};
use super::start::{Ends, INACTIVE, NEVER, NOBODY, Start};

/// `None` unless the first tensors are leafs, which refer to nobody, the others the nodes in their order, which refer
/// to such before them, or themselves. The moment of a step is then the id of its node. `candidates` may be inactive.
pub fn start(graph: &Graph, requests: Requests<'_>, candidates: &[(Step, TensorId)]) -> Option<Start> {
    let (leafs, nodes) = graph.tensors().split_at_checked(graph.leafs().len())?;
    let first = TensorId::try_from(leafs.len()).expect("fewer than 2^32 tensors");
    let is_listed = !leafs.is_empty()
        && graph.nodes().len() == nodes.len()
        && are_counting(graph.leafs(), 0)
        && are_counting(graph.nodes(), first);
    let last_readers = graph.last_readers()?.get(..graph.tensors().len())?;
    if !is_listed {
        return None;
    }
    let mut ends = Ends { first, moments: last_readers.to_vec() };
    let inactive = leave_out_inactive(graph, &mut ends, candidates);
    let leafs = look_at_leafs(leafs, requests.leafs, &mut ends)?;
    let inputs = look_at_nodes(graph.tensors(), requests.nodes, &mut ends)?;
    // Whoever reads itself.
    let names_unseen = graph.self_readers().iter().filter_map(|reader| reader.checked_sub(first)).collect();
    Some(Start { leafs, inputs, ends, names_unseen, inactive })
}

/// Finds the inactive nodes, and moves the last reads of their sources to the last nodes that are computed. A leaf that
/// only they read is not needed beyond the first step; what else only they read stays until the last of them.
fn leave_out_inactive(graph: &Graph, ends: &mut Ends, candidates: &[(Step, TensorId)]) -> Inactive {
    let Some(&(last, _)) = candidates.last() else { return Inactive::default() };
    let readers = Readers {
        is_read: |id| ends.moments[id as usize] != NOBODY,
        is_read_after: |id| ends.moments[id as usize] > ends.moment(last),
    };
    let inactive = Inactive::find(graph, candidates, last + 1, &readers);
    // The moment of a step is its node: memory ends with an inactive one, or that is behind it by now.
    for &node in graph.nodes()[..=last as usize].iter().rev().filter(|&&node| !inactive.has(node)) {
        for &source in graph.sources(node) {
            let end = &mut ends.moments[source as usize];
            if inactive.has(*end) {
                *end = node;
            }
        }
    }
    for &leaf in inactive.nodes().flat_map(|node| graph.sources(node)).filter(|&&source| source < ends.first) {
        let end = &mut ends.moments[leaf as usize];
        if inactive.has(*end) {
            *end = ends.first;
        }
    }
    inactive.nodes().for_each(|node| ends.moments[node as usize] = INACTIVE);
    inactive
}

/// Most graphs have fewer leafs that are to get memory.
const FEW_INPUTS: usize = 32;

/// Tells which leafs are to get memory.
#[inline(never)]
fn look_at_leafs(leafs: &[Tensor], buffers: &[BufferIndex], ends: &mut Ends) -> Option<Vec<(TensorId, BufferIndex)>> {
    let mut owned = Vec::with_capacity(FEW_INPUTS);
    let leafs = leafs.iter().zip(buffers).zip(&mut ends.moments);
    for (id, ((leaf, &buffer), end)) in (0..).zip(leafs) {
        let is_read_by_leaf = (1..ends.first).contains(end);
        if leaf.view.is_some() || is_read_by_leaf {
            return None;
        }
        if leaf.external {
            *end = NOBODY;
            continue;
        }
        if leaf.flags.has(Flags::OUTPUT) {
            *end = NEVER;
        }
        owned.push((id, buffer));
    }
    Some(owned)
}

/// Lets roots last as long as their views, and tells which nodes are inputs.
#[inline(never)]
fn look_at_nodes(tensors: &[Tensor], buffers: &[BufferIndex], ends: &mut Ends) -> Option<Vec<(TensorId, BufferIndex)>> {
    let first = ends.first;
    let mut inputs = Vec::new();
    for (step, node) in (0..).zip(&tensors[first as usize..]) {
        let id = first + step;
        if ends.is_inactive(id) {
            // An inactive view keeps no memory.
        } else if let Some(view) = node.view {
            if view.root >= id || node.operation == Operation::Marker {
                return None;
            }
            ends.add_view([id, view.root], node, &tensors[view.root as usize]);
        } else if node.flags.has(Flags::INPUT) || node.flags.has(Flags::OUTPUT) {
            if node.flags.has(Flags::OUTPUT) {
                ends.moments[id as usize] = NEVER;
            }
            if node.flags.has(Flags::INPUT) && !node.external {
                inputs.push((id, buffers[step as usize]));
            }
        }
    }
    Some(inputs)
}

/// Are these `first` and the following numbers? GraphKey at all, which is faster than to stop at the first that is not.
fn are_counting(ids: &[TensorId], first: TensorId) -> bool {
    (first..).zip(ids).fold(0, |differences, (expected, &id)| differences | (expected ^ id)) == 0
}
