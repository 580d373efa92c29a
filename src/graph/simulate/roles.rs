//! Which tensors of a graph are skipped, known, or results.

use crate::graph::{Flags, Graph, TensorId};
use crate::placement::Step;

/// Returns, by tensor, whether it is a node that backends skip, since it lacks [`Flags::COMPUTE`] while another node
/// has it. Such nodes neither read nor write. An unused VIEW counts as run all the same: the scheduler lists one where
/// it copies the root.
pub fn skipped_nodes(graph: &Graph) -> Vec<bool> {
    let is_used = graph.used_by_nodes();
    let mut skipped = vec![false; graph.tensors().len()];
    let has_flag = |node: TensorId| graph.tensor(node).flags.has(Flags::COMPUTE);
    let knows_flag = graph.has_flag_compute();
    for &node in graph.nodes() {
        let tensor = graph.tensor(node);
        let is_copied = tensor.op.is_view() && !is_used[node as usize];
        skipped[node as usize] = knows_flag && !has_flag(node) && !tensor.is_marker() && !is_copied;
    }
    skipped
}

/// Returns, by tensor, whether it is in a list of the graph or used by a node. Others get no memory, here as in ggml.
pub fn known_tensors(graph: &Graph) -> Vec<bool> {
    let mut known = vec![false; graph.tensors().len()];
    let sources = graph.nodes().iter().flat_map(|&node| graph.sources(node));
    for &id in graph.leafs().iter().chain(graph.nodes()).chain(sources) {
        known[id as usize] = true;
    }
    known
}

/// Returns the retained tensors that are not skipped, each with the last step in which it is retained, in the order of
/// these steps; first, with `None`, those that are retained to the end.
pub fn retained_values(graph: &Graph, skipped: &[bool]) -> Vec<(TensorId, Option<Step>)> {
    let mut retained = graph.retained();
    retained.retain(|&(id, _)| !skipped[id as usize]);
    retained.sort_by_key(|&(_, until)| until);
    retained
}

/// Returns, by tensor, whether it is a result that must last: outputs, and tensors of the graph that are not inputs and
/// are used by no node, not even through a view; of memory that is written before its owner is listed, the owner.
/// `defs` has the step that computes each tensor, `skipped` the nodes that backends skip.
pub fn results(graph: &Graph, defs: &[Option<Step>], skipped: &[bool]) -> Vec<bool> {
    let mut result = vec![false; graph.tensors().len()];
    let is_result = |&&leaf: &&TensorId| {
        let tensor = graph.tensor(leaf);
        tensor.view.is_none() && !tensor.flags.has(Flags::INPUT)
    };
    // Writes into memory before its owner is listed belong to the def of the owner.
    let is_final_node = |&&node: &&TensorId| {
        let is_run = !graph.tensor(node).is_marker() && !skipped[node as usize];
        is_run && defs[graph.root(node) as usize] <= defs[node as usize]
    };
    let values = graph.leafs().iter().filter(is_result);
    for &id in values.chain(graph.nodes().iter().filter(is_final_node)) {
        result[id as usize] = true;
    }
    for &source in graph.nodes().iter().flat_map(|&node| graph.sources(node)) {
        result[source as usize] = false;
        result[graph.root(source) as usize] = false;
    }
    for (result, tensor) in result.iter_mut().zip(graph.tensors()) {
        *result |= tensor.flags.has(Flags::OUTPUT);
    }
    result
}
