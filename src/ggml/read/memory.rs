//! Finds tensors that have memory before planning and alias each other.

use crate::graph::{Graph, TensorId};
use crate::placement::Bytes;

use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::read::ReadGraph;

/// Returns, by tensor, the first tensor whose memory overlaps with its own, directly or through others, among those
/// that have memory before planning. Tensors may alias without being views of each other. Addresses in different
/// buffers are compared too: two buffers may be of the same memory.
pub fn same_memory(runtime: &Runtime, reading: &ReadGraph<'_>) -> Vec<TensorId> {
    let mut same: Vec<TensorId> = (0..).take(reading.tensors.len()).collect();
    let mut end: Bytes = 0;
    let mut first = None;
    for (start, size, id) in known_memory(runtime, &reading.graph, &reading.tensors) {
        match first {
            Some(first) if start < end => same[id as usize] = first,
            _ => first = Some(id),
        }
        end = end.max(start.saturating_add(size));
    }
    same
}

/// Returns address, size in bytes and id of the tensors that have memory before planning, in order of addresses.
fn known_memory(runtime: &Runtime, graph: &Graph, tensors: &[TensorRef<'_>]) -> Vec<(Bytes, Bytes, TensorId)> {
    let external = (0..).zip(tensors).filter(|&(id, tensor)| graph.tensor(id).external && !tensor.data().is_null());
    let mut known: Vec<_> =
        external.map(|(id, &tensor)| (tensor.data().addr() as Bytes, runtime.nbytes(tensor), id)).collect();
    known.retain(|&(_, size, _)| size > 0);
    known.sort_unstable();
    known
}
