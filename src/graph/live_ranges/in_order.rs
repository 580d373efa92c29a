//! The first pass over graphs in which every tensor comes after those that it refers to, as in nearly all: the last
//! users recorded with the sources are the last uses.

use crate::graph::{BufferIndex, Flags, Graph, Operation, Requests, Tensor, TensorId};
use crate::placement::Step;

use super::inactive::{InactiveNodes, KnownUses};
use super::last_uses::{FirstPass, LastUses, Point};
use super::memory::LiveRangeMemory;

/// Runs the first pass, whose program points are the ids of nodes. `consecutive` are the nodes if their ids are
/// consecutive, `candidates` may be inactive. Returns `None` unless the first tensors are the leafs, which refer to
/// nothing, and the others the nodes in their order, which refer to tensors before them or themselves.
pub fn first_pass(
    memory: &mut LiveRangeMemory,
    graph: &Graph,
    consecutive: Option<&[Tensor]>,
    requests: Requests<'_>,
    candidates: &[(Step, TensorId)],
) -> Option<FirstPass> {
    let (leafs, _) = graph.tensors().split_at_checked(graph.leafs().len())?;
    let nodes = consecutive?;
    let first = TensorId::try_from(leafs.len()).expect("fewer than 2^32 tensors");
    let is_listed = !leafs.is_empty()
        && graph.tensors().len() == leafs.len() + nodes.len()
        && graph.nodes().first() == Some(&first)
        && are_consecutive(graph.leafs(), 0)
        && graph.have_no_sources(leafs.len());
    let last_users = graph.last_users()?.get(..graph.tensors().len())?;
    if !is_listed {
        return None;
    }
    let mut points = std::mem::take(&mut memory.points);
    points.clear();
    points.extend(last_users.iter().copied().map(Point));
    let mut last_uses = LastUses { first: Point(first), points };
    let inactive = skip_inactive(graph, &mut last_uses, candidates);
    let leafs = owned_leafs(std::mem::take(&mut memory.leafs), leafs, requests.leafs, &mut last_uses)?;
    let inputs = extend_roots(nodes, graph.tensors(), requests.nodes, &mut last_uses)?;
    let uses_before_def = graph.self_users().iter().filter_map(|user| user.checked_sub(first)).collect();
    Some(FirstPass { leafs, inputs, last_uses, uses_before_def, inactive })
}

/// Finds the inactive nodes, and moves the last uses of their sources to active nodes. A leaf that only inactive nodes
/// use is not needed beyond the first step; what else only they use stays until the last of them.
fn skip_inactive(graph: &Graph, last_uses: &mut LastUses, candidates: &[(Step, TensorId)]) -> InactiveNodes {
    let Some(&(last, _)) = candidates.last() else { return InactiveNodes::default() };
    let uses = KnownUses {
        is_used: |id| last_uses.points[id as usize] != Point::UNUSED,
        is_used_after: |id| last_uses.points[id as usize] > last_uses.point(last),
    };
    let inactive = InactiveNodes::find(graph, candidates, last + 1, &uses);
    // Points are ids of nodes. Going back, the first active user of a source whose last use is inactive becomes its
    // last use.
    for &node in graph.nodes()[..=last as usize].iter().rev().filter(|&&node| !inactive.has(node)) {
        for &source in graph.sources(node) {
            let last_use = &mut last_uses.points[source as usize];
            if inactive.has(last_use.0) {
                *last_use = Point(node);
            }
        }
    }
    for &leaf in inactive.nodes().flat_map(|node| graph.sources(node)).filter(|&&source| source < last_uses.first.0) {
        let last_use = &mut last_uses.points[leaf as usize];
        if inactive.has(last_use.0) {
            *last_use = last_uses.first;
        }
    }
    inactive.nodes().for_each(|node| last_uses.points[node as usize] = Point::INACTIVE);
    inactive
}

/// Returns the leafs to allocate, in the memory of `owned`, and keeps outputs. `None` if a leaf is a view.
#[inline(never)]
fn owned_leafs(
    mut owned: Vec<(TensorId, BufferIndex)>,
    leafs: &[Tensor],
    buffers: &[BufferIndex],
    last_uses: &mut LastUses,
) -> Option<Vec<(TensorId, BufferIndex)>> {
    owned.clear();
    for (id, (leaf, last_use)) in (0..).zip(leafs.iter().zip(&mut last_uses.points)) {
        if leaf.view.is_some() {
            return None;
        }
        if leaf.external {
            // So that no node that uses it is searched for in-place sources.
            *last_use = Point::UNUSED;
            continue;
        }
        if leaf.flags.has(Flags::OUTPUT) {
            *last_use = Point::KEPT;
        }
        owned.push((id, buffers[id as usize]));
    }
    Some(owned)
}

/// Extends the live ranges of roots to those of their views, keeps outputs, and returns the nodes that are inputs.
/// `None` if a view comes before its root or is a no-op.
#[inline(never)]
fn extend_roots(
    nodes: &[Tensor],
    tensors: &[Tensor],
    buffers: &[BufferIndex],
    last_uses: &mut LastUses,
) -> Option<Vec<(TensorId, BufferIndex)>> {
    let first = last_uses.first.0;
    let mut inputs = Vec::new();
    for (step, node) in (0..).zip(nodes) {
        let id = first + step;
        if let Some(view) = node.view {
            if last_uses.is_inactive(id) {
                continue; // It keeps no memory.
            }
            if view.root >= id || node.operation == Operation::Marker {
                return None;
            }
            last_uses.add_view([id, view.root], node, &tensors[view.root as usize]);
        } else if node.flags.has(Flags::INPUT) || node.flags.has(Flags::OUTPUT) {
            // Such a node is never inactive.
            if node.flags.has(Flags::OUTPUT) {
                last_uses.points[id as usize] = Point::KEPT;
            }
            if node.flags.has(Flags::INPUT) && !node.external {
                inputs.push((id, buffers[step as usize]));
            }
        }
    }
    Some(inputs)
}

/// Returns the nodes of `graph` if their ids are consecutive.
pub fn consecutive_nodes(graph: &Graph) -> Option<&[Tensor]> {
    let &first = graph.nodes().first()?;
    let nodes = graph.tensors().get(first as usize..)?.get(..graph.nodes().len())?;
    are_consecutive(graph.nodes(), first).then_some(nodes)
}

/// Returns `true` if `ids` count up from `first`. Compares all, which is faster than to stop at the first that differs.
fn are_consecutive(ids: &[TensorId], first: TensorId) -> bool {
    (first..).zip(ids).fold(0, |differences, (expected, &id)| differences | (expected ^ id)) == 0
}
