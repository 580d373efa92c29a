//! The capabilities of each backend.

use crate::graph::TensorId;

use super::backends::{BackendIndex, BufferTypeIndex};

/// An allocation dependency that a backend adds when it optimizes a split: `add_alloc_dep` of ggml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptUntil {
    /// The tensor whose memory is kept.
    pub tensor: TensorId,
    /// The node of the same split until which it is kept.
    pub until: TensorId,
}

/// The questions that ggml's scheduler asks its backends. Tensors are those of the graph, never copies.
pub trait Capabilities {
    /// Returns `true` if `backend` can run the operation of `tensor`: `ggml_backend_supports_op`. Leafs are asked for
    /// too.
    fn supports_op(&self, backend: BackendIndex, tensor: TensorId) -> bool;

    /// Returns `true` if `backend` can use tensors in buffers of this type: `ggml_backend_supports_buft`.
    fn supports_buffer_type(&self, backend: BackendIndex, buffer_type: BufferTypeIndex) -> bool;

    /// Returns `true` if `backend` should run `node` although its weight is on the host: `ggml_backend_offload_op`.
    fn offloads_op(&self, backend: BackendIndex, node: TensorId) -> bool;

    /// Puts the nodes of a split into the order in which `backend` runs them, and returns what must be kept longer:
    /// `graph_optimize` of ggml's interface of backends. `is_copied` returns `true` for tensors that the split reads a
    /// copy of; where one is kept, its copy is. The default changes nothing, as most backends do.
    fn optimize(
        &self,
        backend: BackendIndex,
        nodes: &mut [TensorId],
        is_copied: &dyn Fn(TensorId) -> bool,
    ) -> Vec<KeptUntil> {
        let _ = (backend, nodes, is_copied);
        Vec::new()
    }
}
