//! Extends the last uses of retained tensors, and of what backends may read late because of them.

use crate::graph::{Graph, TensorId};
use crate::placement::Step;

use super::blocks::Blocks;
use super::last_uses::{LastUses, Point};

/// Extends the live ranges of the memory of retained tensors: to the step that ends the retention, or to the end.
/// Inactive nodes are never computed, so there is nothing to retain.
#[cold]
pub fn extend_retained(graph: &Graph, last_uses: &mut LastUses) {
    for (tensor, until) in graph.retained() {
        let root = graph.root(tensor);
        let is_planned = graph.tensor(root).is_owned();
        if !is_planned || last_uses.is_inactive(tensor) || last_uses.is_inactive(root) {
            continue;
        }
        let end = until.map_or(Point::KEPT, |step| last_uses.point(step));
        let last_use = &mut last_uses.points[root as usize];
        // Unused results may be read after the graph, retained or not.
        *last_use = if *last_use == Point::UNUSED { Point::KEPT } else { end.max(*last_use) };
    }
}

/// Returns, by owner of memory, whether it or a view of it is retained; empty if nothing is.
pub fn retained_owners(graph: &Graph) -> Vec<bool> {
    let retained = graph.retention().list();
    let mut owners = vec![false; if retained.is_empty() { 0 } else { graph.tensors().len() }];
    retained.iter().for_each(|retained| owners[graph.root(retained.tensor) as usize] = true);
    owners
}

/// A backend fuses a node with at most this many nodes before it.
const FUSED: Step = 8;

/// Keeps the tensors that a backend may read while `node` runs at `step`, in its own memory since its source is
/// retained. `is_retained` has, by owner of memory, whether it or a view of it is retained.
///
/// Backends fuse a node with those before it whose results it alone reads, and then read their sources while they write
/// its result, without comparing addresses: ggml's own allocator would compute the node in place of such a result,
/// which does not overlap with its sources. So this concerns the operations in ggml's list alone.
#[cold]
pub fn keep_fused_sources(graph: &Graph, is_retained: &[bool], blocks: &mut Blocks, node: TensorId, step: Step) {
    let operation = graph.tensor(node).operation;
    let is_replaced = |(slot, &source): (usize, &TensorId)| {
        is_retained[graph.root(source) as usize] && operation.may_write_over(slot) && graph.same_layout(source, node)
    };
    if !operation.is_listed() || !graph.sources(node).iter().enumerate().any(is_replaced) {
        return;
    }
    let first = step.saturating_sub(FUSED);
    let mut fused = vec![node];
    for &earlier in graph.nodes()[first as usize..step as usize].iter().rev() {
        if fused.iter().any(|&later| graph.sources(later).contains(&earlier)) {
            fused.push(earlier);
        }
    }
    for &source in fused[1..].iter().flat_map(|&earlier| graph.sources(earlier)) {
        blocks.keep_through(graph.root(source), step);
    }
}
