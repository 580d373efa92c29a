//! llama.cpp's names of results, and the backends that it assigns to some of them before it schedules a graph.

use super::backends::{BackendIndex, Capabilities};
use super::placed_graph::PlacedGraph;
use crate::graph::{Op, TensorId};

/// Returns N for the name of a result of layer N: "Qcur-3", "Qcur-3 (view)".
pub fn layer_of(name: &str) -> Option<u32> {
    let (_, number) = without_additions(name).rsplit_once('-')?;
    if number.bytes().all(|byte| byte.is_ascii_digit()) { number.parse().ok() } else { None }
}

/// Returns the name without what ggml appends for views: " (view)", " (permuted)" and the like.
fn without_additions(name: &str) -> &str {
    name.split_once(" (").map_or(name, |(name, _)| name)
}

/// Returns `true` if a name is that of a result of some layer: `base`, a hyphen and a number, nothing behind.
pub fn is_of_layer(name: &str, base: &str) -> bool {
    name.strip_prefix(base)
        .and_then(|rest| rest.strip_prefix('-'))
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Names of results that llama.cpp puts on the device of their layer.
const ASSIGNED: [&str; 2] = ["norm", "l_last"];

/// Returns what llama.cpp assigns by `ggml_backend_sched_set_tensor_backend`, for [`PlacedGraph::assigned`]: the results
/// "norm-N" and "l_last-N" go to the backend of layer N, if that backend supports them. llama.cpp does so for batches of
/// fewer than 32 tokens, and for all batches when every layer and the output are offloaded.
///
/// `backend_of_layer` returns the backend of a layer's device. Names are those at the end of building: a result that
/// had one of these names first and another one later is not found.
pub fn llama_cpp_assignments(
    placed: PlacedGraph<'_>,
    capabilities: &dyn Capabilities,
    backend_of_layer: impl Fn(u32) -> Option<BackendIndex>,
) -> Vec<(TensorId, BackendIndex)> {
    let assigned = |&node: &TensorId| {
        let name = placed.snapshot.tensors[node as usize].name.as_str();
        let layer = layer_of(name).filter(|_| ASSIGNED.iter().any(|base| is_of_layer(name, base)))?;
        let backend = backend_of_layer(layer)?;
        capabilities.supports_op(backend, node).then_some((node, backend))
    };
    placed.graph().nodes().iter().filter_map(assigned).collect()
}

/// Returns the nodes that llama.cpp also assigns to the host with `--no-kv-offload`: the results of attention,
/// "kqv_out-N", where it is computed without flash attention, for all batches.
pub fn llama_cpp_host_attention(placed: PlacedGraph<'_>, host: BackendIndex) -> Vec<(TensorId, BackendIndex)> {
    let is_attention = |&node: &TensorId| {
        placed.graph().tensor(node).op == Op::Cont
            && is_of_layer(&placed.snapshot.tensors[node as usize].name, "kqv_out")
    };
    placed.graph().nodes().iter().copied().filter(is_attention).map(|node| (node, host)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_layers() {
        assert_eq!(layer_of("Qcur-3"), Some(3));
        assert_eq!(layer_of("Qcur-3 (view) (permuted)"), Some(3));
        assert_eq!([layer_of("embd"), layer_of("a-"), layer_of("a-b"), layer_of("a-99999999999")], [None; 4]);
        assert!(is_of_layer("norm-12", "norm"));
        assert!(
            !is_of_layer("attn_norm-12", "norm")
                && !is_of_layer("norm-", "norm")
                && !is_of_layer("norm-1 (view)", "norm")
        );
    }
}
